package tei_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/serve"
	"github.com/onward-ml/onward/serve/tei"
)

func Example() {
	ctx := context.Background()
	conn, stop := serveFolder(ctx) // such as onward serve all-MiniLM-L6-v2
	defer stop()

	r, err := tei.NewEmbedClient(conn).Embed(ctx, &tei.EmbedRequest{Inputs: "a cat", Truncate: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(r.Embeddings), "numbers from", r.Metadata.ComputeTokens, "tokens")
	// Output: 4 numbers from 4 tokens
}

// serveFolder serves a small model folder, and returns a connection to the server.
func serveFolder(ctx context.Context) (conn *grpc.ClientConn, stop func()) {
	dir, err := os.MkdirTemp("", "onward")
	if err == nil {
		err = modelfolder.Write(filepath.Join(dir, "embedder"), "embedder")
	}
	if err != nil {
		log.Fatal(err)
	}
	s, err := serve.New(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	go g.Serve(l)
	conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		g.Stop()
		s.Close()
		os.RemoveAll(dir)
	}
}
