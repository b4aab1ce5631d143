package openvino_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/nativetest"
	"github.com/onward-ml/onward/tensor"
)

// TestCallingThreads proves that OpenVINO leaves the threads that call it as they
// were: where they may run, and how they treat the smallest numbers. It keeps some
// memory for each, so there must be an end to that.
func TestCallingThreads(t *testing.T) {
	s := openModel(t, nativetest.Scale("n"))
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	many := func() {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				runtime.LockOSThread() // the thread ends with the goroutine
				for range 50 {
					if _, err := s.Run(context.Background(),
						onward.Values{"x": tensor.Must(tensor.New([]float32{1, 2}))}, nil); err != nil {
						t.Error(err)
					}
					tiny := float32(math.SmallestNonzeroFloat32)
					if x := tiny * float32(runtime.NumCPU()+1); x == 0 {
						t.Error("denormal numbers have become zero")
					}
					var now unix.CPUSet
					if err := unix.SchedGetaffinity(0, &now); err != nil || now != before {
						t.Errorf("the thread may run on %v, before on %v; %v", now, before, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	for range 5 {
		many()
	}
	start := nativetest.ResidentMemory(t)
	for range 20 {
		many()
	}
	if grown := nativetest.ResidentMemory(t) - start; grown > 16<<20 {
		t.Errorf("resident memory grew by %d bytes with 320 threads", grown)
	}
}
