// Command streaming runs a recurrent model over a signal that arrives in chunks. The state at the
// end of one run is an input of the next, so that the result does not depend on how the signal is
// cut.
//
//	go run ./examples/streaming
package main

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	ctx := context.Background()
	f, err := open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	signal := make([]float32, 24)
	for i := range signal {
		signal[i] = float32(math.Sin(float64(i) / 2))
	}
	for len(signal) > 0 {
		n := min(7, len(signal)) // the last chunk is shorter
		y, err := f.Process(ctx, signal[:n])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.4f\n", y)
		signal = signal[n:]
	}
}

const hidden = 4

// filter is a stream through a GRU with one input and [hidden] states. It is not safe for
// concurrent use; streams at the same time take a filter each and can share a session.
type filter struct {
	session *onward.Session
	state   *tensor.Tensor // [1, 1, hidden]: directions, batch, states
}

func open(ctx context.Context) (*filter, error) {
	m, err := model()
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(ctx, m, nil)
	if err != nil {
		return nil, err
	}
	h, err := tensor.Zeros(tensor.TypeFloat32, 1, 1, hidden)
	if err != nil {
		return nil, err
	}
	return &filter{session: s, state: h}, nil
}

func (f *filter) Close() error { return f.session.Close() }

// Process returns the mean of the states after each element of a chunk.
func (f *filter) Process(ctx context.Context, chunk []float32) ([]float32, error) {
	x, err := tensor.New(chunk, len(chunk), 1, 1) // time, batch, features
	if err != nil {
		return nil, err
	}
	out, err := f.session.Run(ctx, onward.Values{"x": x, "h": f.state}, nil)
	if err != nil {
		return nil, err // the state is that before the chunk, which can be sent again
	}
	f.state = out["h_next"].(*tensor.Tensor)
	return tensor.Data[float32](out["y"])
}

// model returns a GRU (https://onnx.ai/onnx/operators/onnx__GRU.html) whose initial and final state
// are input and output, with weights that a real model would have learned.
func model() (*onnx.Model, error) {
	weights := func(n int, phase float64) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(math.Sin(float64(i)*1.7+phase)) / 2
		}
		return w
	}
	b := onnx.NewModel("stream").Opset("", 21)
	b.Input("x", onnx.Float, "time", 1, 1).Input("h", onnx.Float, 1, 1, hidden)
	b.Initializer("w", weights(3*hidden, 0), 1, 3*hidden, 1).
		Initializer("r", weights(3*hidden*hidden, 1), 1, 3*hidden, hidden)
	b.Initializer("axes", []int64{1, 2, 3}, 3)
	// states: [time, 1, 1, hidden]
	b.Node("GRU", []string{"x", "w", "r", "", "", "h"}, []string{"states", "h_next"}, onnx.Attrs{"hidden_size": hidden})
	b.Node("ReduceMean", []string{"states", "axes"}, []string{"y"}, onnx.Attrs{"keepdims": 0})
	b.Output("y", onnx.Float, "time").Output("h_next", onnx.Float, 1, 1, hidden)
	return b.Model()
}
