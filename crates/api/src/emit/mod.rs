//! What is generated from the table: an OpenAPI document and TypeScript types.
