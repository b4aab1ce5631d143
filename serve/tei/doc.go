// Package tei holds the messages and the services of Text Embeddings Inference over gRPC. It is
// generated from tei.proto by this command, with protoc 35.1, protoc-gen-go 1.36.12 and
// protoc-gen-go-grpc 1.6.2. make generate does not run it, because protoc is not written in Go.
//
//	protoc --go_out=. --go_opt=paths=source_relative \
//		--go-grpc_out=. --go-grpc_opt=paths=source_relative tei.proto
//
// A program can hold one package with these messages: protobuf refuses a second registration of
// the names.
package tei
