package chains

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/testing/bindingtest"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomControlFlow compares cpu at all optimization levels with reference on random models of
// nested Loop, Scan, If, SequenceMap and functions: the runs of one session in several orders, with
// some of the outputs, and through bindings. Results must be equal. No model may be refused.
func TestRandomControlFlow(t *testing.T) {
	opfuzz.Reproducible(t, opfuzz.Part("300", "4000"))
	reference := &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}}
	bound := bindingtest.Register("cpu")
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
		for _, level := range []onward.OptimizationLevel{onward.OptimizeAll, onward.OptimizeExtended,
			onward.OptimizeBasic, onward.OptimizeNone} {
			got, err := c.Run(&onward.SessionOptions{Threads: 1, OptimizationLevel: level})
			check("cpu at "+level.String(), got, err)
		}
		if rapid.IntRange(0, 3).Draw(t, "saved") == 0 {
			m, _, err := onward.OptimizeModel(context.Background(), c.Model,
				&onward.SessionOptions{OptimizationLevel: onward.OptimizeExtended})
			if err != nil {
				t.Fatalf("optimize the model: %v\n%s", err, c)
			}
			got, err := c.RunModel(m, reference)
			check("the optimized model on reference", got, err)
		}
		if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
			got, err := c.Run(&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: bound}}})
			check("cpu with a binding", got, err)
		}
		schedule := c.DrawSchedule(t, len(want))
		got, err := c.RunSchedule(schedule,
			&onward.SessionOptions{Threads: 2, DisableMemoryPattern: rapid.IntRange(0, 7).Draw(t, "unplanned") == 0})
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
