//go:build unix

package serve

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward/serve/inference"
)

// TestSharedObjectsThatChange sends requests while their object is truncated, removed, and replaced
// by a link, a pipe or a folder, and its region is registered and unregistered. Requests fail with
// errors of the client, or give results.
func TestSharedObjectsThatChange(t *testing.T) {
	const size, requests = 1 << 15, 3000
	s, folder := sharedServer(t)
	held := s.memory.Used()
	c := dial(t, s)
	path, outside := filepath.Join(folder, "o"), filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	var wait, others sync.WaitGroup
	var ended atomic.Bool
	var got [codes.Unauthenticated + 1]atomic.Int64
	check := func(err error) {
		code := status.Code(err)
		got[code].Add(1)
		if code != codes.OK && code != codes.InvalidArgument && code != codes.NotFound && code != codes.AlreadyExists {
			t.Error(err)
		}
	}
	others.Go(func() {
		for r := rand.New(rand.NewPCG(1, 1)); !ended.Load(); {
			os.RemoveAll(path)
			switch r.IntN(8) {
			case 0:
				os.Symlink(outside, path)
			case 1:
				syscall.Mkfifo(path, 0o600)
			case 2:
				os.Mkdir(path, 0o700)
			default:
				os.WriteFile(path, make([]byte, size), 0o600)
				for range 100 {
					os.Truncate(path, r.Int64N(size))
					os.Truncate(path, size)
				}
			}
		}
	})
	others.Go(func() {
		for r := rand.New(rand.NewPCG(1, 2)); !ended.Load(); {
			_, err := c.SystemSharedMemoryRegister(t.Context(), &inference.SystemSharedMemoryRegisterRequest{Name: "r",
				Key: "o", ByteSize: size})
			check(err)
			if r.IntN(4) == 0 {
				_, err := c.SystemSharedMemoryUnregister(t.Context(), &inference.SystemSharedMemoryUnregisterRequest{})
				check(err)
			}
		}
	})
	for range 2 {
		wait.Go(func() {
			const n = size / 4
			m := message("simple", "INT32", []int64{n / 8, 2}, "")
			m.Inputs[0].Name, m.Inputs[0].Parameters, m.RawInputContents = "INPUT0", inRegion("r", 0, n), nil
			m.Inputs = append(m.Inputs, &inference.ModelInferRequest_InferInputTensor{Name: "INPUT1", Datatype: "INT32",
				Shape: m.Inputs[0].Shape, Parameters: inRegion("r", n, n)})
			for _, name := range []string{"OUTPUT0", "OUTPUT1"} {
				m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name,
					Parameters: inRegion("r", 2*n, n)})
			}
			for range requests {
				_, err := c.ModelInfer(t.Context(), m)
				check(err)
			}
		})
	}
	wait.Wait()
	ended.Store(true)
	others.Wait()
	if got[codes.OK].Load() == 0 || got[codes.InvalidArgument].Load() == 0 {
		t.Errorf("no request succeeds, or none fails")
	}
	if n := s.memory.Used() - held; n > connectionCost+streamCost {
		t.Errorf("%d bytes are reserved at the end", n)
	}
}
