package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"

	"google.golang.org/grpc"

	"github.com/onward-ml/onward/serve/inference"
)

// emptyServer is the argument that makes this program a server whose handlers do nothing: what it
// takes to answer is the time of the protocols' libraries and of the kernel.
const emptyServer = "empty-server"

func startEmpty(ctx context.Context) (*server, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startLogged(exec.CommandContext(ctx, exe, emptyServer))
}

func serveEmpty() error {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	log.Info("listening", "protocol", "http", "address", web.Addr().String())
	log.Info("listening", "protocol", "grpc", "address", rpc.Addr().String())
	go http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write([]byte("{}"))
	}))
	g := grpc.NewServer()
	inference.RegisterGRPCInferenceServiceServer(g, empty{})
	return g.Serve(rpc)
}

type empty struct {
	inference.UnimplementedGRPCInferenceServiceServer
}

func (empty) ModelInfer(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	return &inference.ModelInferResponse{Outputs: []*inference.ModelInferResponse_InferOutputTensor{{}}}, nil
}
