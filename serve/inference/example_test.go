package inference_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/serve"
	"github.com/onward-ml/onward/serve/inference"
)

// This example calls a server over gRPC, here one of the same program.
func ExampleNewGRPCInferenceServiceClient() {
	ctx := context.Background()
	data, err := datasets.Get("mul_1.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := serve.New(ctx, "", &serve.Options{Models: []serve.Model{{Name: "squares", Data: data}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go g.Serve(l)
	defer g.Stop()

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := inference.NewGRPCInferenceServiceClient(conn)
	response, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName: "squares",
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "X", Datatype: "FP32", Shape: []int64{3, 2},
			Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4, 5, 6}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := response.Outputs[0]
	fmt.Println(out.Name, out.Datatype, out.Shape, len(response.RawOutputContents[0]), "bytes")
	// Output: Y FP32 [3 2] 24 bytes
}
