package onward_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomControlFlow compares cpu at all optimization levels with reference on random models of
// nested Loop, Scan, If, SequenceMap and functions. Results must be equal, and so must be the models
// that are refused.
func TestRandomControlFlow(t *testing.T) {
	opfuzz.Reproducible(t, opfuzz.Part("400", "4000"))
	reference := &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}}
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		c := opfuzz.DrawControlFlow(t, false)
		want, err := c.Run(reference)
		if err != nil {
			t.Fatalf("reference: %v\n%s", err, c)
		}
		check := func(how string, got []map[string]tensor.Value, err error) {
			if err != nil {
				t.Fatalf("%s: %v\n%s", how, err, c)
			}
			for i, w := range want {
				for name, v := range w {
					if err := tensor.Equal(got[i][name], v); err != nil {
						t.Fatalf("%s: feed %d: output %s: %v\n%s", how, i, name, err, c)
					}
				}
			}
		}
		for _, level := range []onward.OptimizationLevel{onward.OptimizeAll, onward.OptimizeExtended, onward.OptimizeBasic, onward.OptimizeNone} {
			got, err := c.Run(&onward.SessionOptions{Threads: 1, OptimizationLevel: level})
			check("cpu at "+level.String(), got, err)
		}
		if rapid.IntRange(0, 3).Draw(t, "saved") == 0 {
			m, _, err := onward.OptimizeModel(context.Background(), c.Model, &onward.SessionOptions{OptimizationLevel: onward.OptimizeExtended})
			if err != nil {
				t.Fatalf("optimize the model: %v\n%s", err, c)
			}
			got, err := c.RunModel(m, reference)
			check("the optimized model on reference", got, err)
		}
		schedule := c.DrawSchedule(t, len(want))
		got, err := c.RunSchedule(schedule, &onward.SessionOptions{Threads: 2})
		if err != nil {
			t.Fatalf("cpu with schedule %v: %v\n%s", schedule, err, c)
		}
		for k, i := range schedule.Feed {
			for name, v := range got[k] {
				if err := tensor.Equal(v, want[i][name]); err != nil {
					t.Fatalf("run %d of %v: output %s: %v\n%s", k, schedule, name, err, c)
				}
			}
		}
		compared++
	})
	t.Logf("%d models compared", compared)
}
