package serve

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gated returns schedulers of models with runs of the given times, which share a gate.
func gated(runs int, times ...time.Duration) (g *gate, models []*scheduler) {
	g = &gate{free: runs}
	for _, d := range times {
		s := newScheduler(oneLevel(schedulePolicy{instances: 8}), &fakeRun{time: d})
		s.gate = g
		models = append(models, s)
	}
	return g, models
}

// TestModelsShareRunsFairly floods a server with requests of two models, and then sends single
// ones of a third: these wait for one run at most, and the first two get the same time.
func TestModelsShareRunsFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, m := gated(1, 100*time.Millisecond, 20*time.Millisecond, time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 200 {
			for _, s := range m[:2] {
				wait.Go(func() { s.submit(vector(ctx, 1)) })
			}
		}
		for i := range 10 {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			start := time.Now()
			if err := m[2].submit(vector(t.Context(), 1)); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > 101*time.Millisecond {
				t.Errorf("request %d of the third model took %s beside two floods", i, d)
			}
		}
		long, short := m[0].run.(*fakeRun), m[1].run.(*fakeRun)
		a, b := time.Duration(long.runs())*long.time, time.Duration(short.runs())*short.time
		if d := a - b; d > 200*time.Millisecond || d < -200*time.Millisecond {
			t.Errorf("the models ran for %s and %s, want the same", a, b)
		}
		cancel()
		wait.Wait()
		time.Sleep(time.Second) // runs whose clients went away end
		synctest.Wait()
		if g.free != 1 || len(g.waiting) != 0 {
			t.Errorf("after the requests the gate has %d runs and %d models wait", g.free, len(g.waiting))
		}
	})
}

// TestGateBoundsRuns checks the number of runs at the same time, and that none is lost when
// clients go away while their model waits.
func TestGateBoundsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, m := gated(2, time.Second, time.Second, time.Second)
		start := time.Now()
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				if err := m[i%3].submit(vector(t.Context(), 1)); err != nil {
					t.Error(err)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*300*time.Millisecond)
			defer cancel()
			wait.Go(func() { m[i%3].submit(vector(ctx, 1)) })
		}
		wait.Wait()
		if d := time.Since(start); d < 6*time.Second || d > 12*time.Second {
			t.Errorf("12 requests of 1 s, 2 at the same time, took %s, want at least 6 s", d)
		}
		synctest.Wait()
		if g.free != 2 || len(g.waiting) != 0 {
			t.Errorf("after the requests the gate has %d runs and %d models wait, want 2 and 0", g.free, len(g.waiting))
		}
		for i, s := range m {
			if s.share.granted != 0 || s.free != 8 || s.pending() != 0 {
				t.Errorf("model %d: %d granted, %d instances, %d requests, want 0, 8, 0", i, s.share.granted,
					s.free, s.pending())
			}
		}
	})
}

// TestBatchesGrowAtTheGate checks that requests that wait for the gate can still join a batch.
func TestBatchesGrowAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := gated(1, time.Second, time.Second)
		m[1].policy.maxBatch = 8
		var wait sync.WaitGroup
		wait.Go(func() { m[0].submit(vector(t.Context(), 1)) })
		synctest.Wait()
		for range 5 {
			wait.Go(func() { m[1].submit(vector(t.Context(), 1)) })
			synctest.Wait()
		}
		wait.Wait()
		if got := fmt.Sprint(m[1].run.(*fakeRun).sizes); got != "[5]" {
			t.Errorf("sizes of the runs: %s, want [5]", got)
		}
	})
}

func TestInstancesOption(t *testing.T) {
	s := newServer(t,
		writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1), "own/1/model.onnx": scaled(t, 1),
			"own/config.pbtxt": []byte("instance_group { count: 2 }")}), &Options{Instances: 5})
	if a, b := s.models["m"].versions[1].policy.instances,
		s.models["own"].versions[1].policy.instances; a != 5 || b != 2 {
		t.Errorf("instances %d and %d, want 5 and 2", a, b)
	}
}

// TestNewModelDoesNotDelayOthers: the time that a model got without waiting counts as passed for
// models that come later.
func TestNewModelDoesNotDelayOthers(t *testing.T) {
	g := &gate{free: 1}
	var old, added share
	for range 2 {
		if !g.take(&old) {
			t.Fatal("the only model waits")
		}
		g.give(&old, time.Hour)
	}
	if !g.take(&added) || added.used != time.Hour {
		t.Errorf("a model that comes after runs of 2h begins with %v, want the start of the last run, 1h", added.used)
	}
}
