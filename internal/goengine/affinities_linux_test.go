package goengine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/exec"
)

// TestBoundWorkers checks that bound workers run on their processors, also parts of a division, and
// that threads that they leave run on all again.
func TestBoundWorkers(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	if runtime.GOMAXPROCS(0) < 2 || !all.IsSet(1) {
		t.Skip("want processors 0 and 1")
	}
	p, _, err := pool(&driver.Options{Threads: 2, Config: map[string]string{driver.ConfigThreadAffinities: "2"}})
	if err != nil {
		t.Fatal(err)
	}
	both := make(chan bool)
	sets := make([]unix.CPUSet, 2)
	part := func(i int) { // the caller's part waits for the worker's
		if err := unix.SchedGetaffinity(0, &sets[i]); err != nil {
			t.Error(err)
		}
		select {
		case both <- true:
		case <-both:
		case <-time.After(10 * time.Second):
			t.Error("the worker has not begun")
		}
	}
	p.Divide(2, func(i int, _ exec.Team) { part(i) })
	if s := sets[1]; s.Count() != 1 || !s.IsSet(1) {
		t.Error("part 1 of a division does not run on processor 1, to which its first thread is bound")
	}
	p.Run(2, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			part(i)
		}
	})
	p.Close()
	bound := 0
	for _, s := range sets {
		if s.Count() == 1 && s.IsSet(1) {
			bound++
		}
	}
	if bound != 1 {
		t.Errorf("%d threads of 2 were bound to processor 1, want the worker's", bound)
	}
	for end := time.Now().Add(10 * time.Second); ; { // the worker parks
		var bound atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var s unix.CPUSet
				if err := unix.SchedGetaffinity(0, &s); err != nil || s != all {
					bound.Add(1)
				}
			})
		}
		if group.Wait(); bound.Load() == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 8 threads that no worker runs on are bound", bound.Load())
		}
	}
}
