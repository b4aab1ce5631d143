package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onward-ml/onward/serve/inference"
)

// client sends the same request again and again.
type client struct {
	infer func(context.Context) error
	close func()
}

func shape64(shape []int) (l []int64) {
	for _, d := range shape {
		l = append(l, int64(d))
	}
	return l
}

func grpcClient(address string, m *model) (*client, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c := inference.NewGRPCInferenceServiceClient(conn)
	request := &inference.ModelInferRequest{ModelName: m.name, RawInputContents: [][]byte{m.data.Bytes()},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: m.input, Datatype: "FP32",
			Shape: shape64(m.shape)}}}
	return &client{
		infer: func(ctx context.Context) error {
			r, err := c.ModelInfer(ctx, request)
			if err == nil && len(r.Outputs) == 0 {
				err = fmt.Errorf("the response has no outputs: %v", r)
			}
			return err
		},
		close: func() { conn.Close() },
	}, nil
}

func restClient(address string, m *model) *client {
	head, err := json.Marshal(map[string]any{
		"inputs": []any{map[string]any{"name": m.input, "shape": m.shape, "datatype": "FP32",
			"parameters": map[string]any{"binary_data_size": len(m.data.Bytes())}}},
		"parameters": map[string]any{"binary_data_output": true},
	})
	if err != nil {
		panic(err) // these values have a JSON form
	}
	body := slices.Concat(head, m.data.Bytes())
	transport := &http.Transport{DisableCompression: true}
	url := "http://" + address + "/v2/models/" + m.name + "/infer"
	return &client{
		infer: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/octet-stream")
			r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(head)))
			resp, err := transport.RoundTrip(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != http.StatusOK || !bytes.HasPrefix(b, []byte("{"))) {
				err = fmt.Errorf("%s: %.300s", resp.Status, b)
			}
			return err
		},
		close: transport.CloseIdleConnections,
	}
}

// measured holds the times of requests in microseconds, sorted.
type measured struct {
	times   []float64
	elapsed time.Duration
}

func (m *measured) rate() float64 { return float64(len(m.times)) / m.elapsed.Seconds() }

func (m *measured) quantile(q float64) float64 { return m.times[int(q*float64(len(m.times)-1))] }

// load runs the clients at the same time, each with one request after the other, and times them
// after a warm-up of a fifth of the duration.
func load(ctx context.Context, clients []*client, d time.Duration) (*measured, error) {
	if _, err := drive(ctx, clients, d/5); err != nil {
		return nil, err
	}
	return drive(ctx, clients, d)
}

func drive(ctx context.Context, clients []*client, d time.Duration) (*measured, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	times := make([][]float64, len(clients))
	var wait sync.WaitGroup
	start := time.Now()
	for i, c := range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				t := time.Now()
				if t.Sub(start) > d {
					return
				}
				if err := c.infer(ctx); err != nil {
					cancel(err)
					return
				}
				times[i] = append(times[i], float64(time.Since(t).Nanoseconds())/1e3)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m := &measured{times: slices.Concat(times...), elapsed: time.Since(start)}
	if len(m.times) == 0 {
		return nil, fmt.Errorf("no request ended within %s", d)
	}
	slices.Sort(m.times)
	return m, nil
}
