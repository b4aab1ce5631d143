package chains

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/tensor"
)

// TestRandomChains compares cpu with reference on random graphs of operators:
//
//   - at all optimization levels, with one to three threads
//   - with two batch sizes on one session, repeatedly and in random order
//   - with random subsets of the outputs, and with a binding
//   - saved after optimization
//
// The flags -rapid.checks and -rapid.seed run more or other cases.
func TestRandomChains(t *testing.T) {
	opfuzz.Reproducible(t, opfuzz.Part("130", "700"))
	data := ""
	if s, err := suite.Find(); err == nil {
		data = s.Dir
	}
	seeds, err := opfuzz.Load("../../..", data)
	if err != nil {
		t.Fatal(err)
	}
	type setting struct {
		level   onward.OptimizationLevel
		threads int
	}
	var settings []setting
	for _, l := range []onward.OptimizationLevel{onward.OptimizeAll, onward.OptimizeExtended, onward.OptimizeBasic,
		onward.OptimizeNone} {
		settings = append(settings, setting{l, 1}, setting{l, 2}, setting{l, 3})
	}
	compared, one := 0, 0
	var excused opfuzz.Excused
	rapid.Check(t, func(t *rapid.T) {
		c := opfuzz.DrawChain(t, kit.All(), seeds)
		if c == nil {
			return
		}
		want, err := c.Run(&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}})
		if err != nil && (len(want) == 0 || strings.Contains(err.Error(), "PANIC")) {
			if strings.Contains(err.Error(), "PANIC") {
				t.Fatalf("reference: %v\n%s", err, c)
			}
			return
		}
		if compared++; err != nil {
			one++ // the chain does not accept the second batch size
		}
		check := func(how string, got []map[string]tensor.Value, err error) {
			if len(got) < len(want) || err != nil &&
				(strings.Contains(err.Error(), "PANIC") || strings.Contains(err.Error(), "runs again")) {
				t.Fatalf("%s: %v\n%s", how, err, c)
			}
			for i, w := range want {
				n, err := c.Compare(i, got[i], w, false)
				if err != nil {
					t.Fatalf("%s: feed %d: %v\n%s", how, i, err, c)
				}
				excused.Add(n)
			}
		}
		var plain []map[string]tensor.Value // of settings[0]
		turn := rapid.IntRange(1, len(settings)-1).Draw(t, "setting")
		for _, s := range []setting{settings[0], settings[turn]} {
			got, err := c.Run(&onward.SessionOptions{Threads: s.threads, OptimizationLevel: s.level})
			check("cpu at "+s.level.String(), got, err)
			if s == settings[0] {
				plain = got
			}
		}
		switch rapid.IntRange(0, 4).Draw(t, "way") {
		case 0:
			m, _, err := onward.OptimizeModel(context.Background(), c.Model,
				&onward.SessionOptions{OptimizationLevel: settings[turn].level})
			if err != nil {
				t.Fatalf("optimize the model: %v\n%s", err, c)
			}
			got, err := c.RunModel(m,
				&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}})
			check("the optimized model on reference", got, err)
		case 1:
			if got := bound(t, c, plain[:len(want)]); got != nil {
				check("cpu with bound outputs", got, nil)
			}
		case 2:
			schedule := c.DrawSchedule(t, len(want))
			got, err := c.RunSchedule(schedule,
				&onward.SessionOptions{Threads: settings[turn].threads, OptimizationLevel: settings[turn].level})
			if err != nil {
				t.Fatalf("cpu with schedule %v: %v\n%s", schedule, err, c)
			}
			for k, i := range schedule.Feed {
				w := want[i]
				if names := schedule.Outputs[k]; names != nil {
					w = map[string]tensor.Value{}
					for _, name := range names {
						w[name] = want[i][name]
					}
				}
				if len(got[k]) != len(w) {
					t.Fatalf("run %d of %v: %d outputs, want %d\n%s", k, schedule, len(got[k]), len(w), c)
				}
				n, err := c.Compare(i, got[k], w, false)
				if err != nil {
					t.Fatalf("run %d of %v: %v\n%s", k, schedule, err, c)
				}
				excused.Add(n)
			}
		}
	})
	t.Logf("%d chains compared, %d of them with one size alone; %s", compared, one, excused)
	if limit := max(3, compared/100); excused.Shapes+excused.Large > limit {
		t.Errorf("%d tensors are not compared, want at most %d", excused.Shapes+excused.Large, limit)
	}
	if compared == 0 {
		t.Error("no chain was compared")
	}
}

// bound runs a chain with a binding, whose memory changes only with the shapes. want has
// the shapes of the outputs.
func bound(t *rapid.T, c *opfuzz.Chain, want []map[string]tensor.Value) []map[string]tensor.Value {
	s, err := onward.OpenModel(context.Background(), c.Model, &onward.SessionOptions{Threads: 1})
	if err != nil {
		t.Fatalf("%v\n%s", err, c)
	}
	defer s.Close()
	b, err := s.NewBinding()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var r []map[string]tensor.Value
	in, out := map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	same := func(have *tensor.Tensor, x *tensor.Tensor) bool {
		return have != nil && have.DType() == x.DType() && slices.Equal(have.Shape(), x.Shape())
	}
	for i := range want {
		for name, v := range c.Feeds[i] {
			x := v.(*tensor.Tensor)
			if same(in[name], x) && x.DType() != tensor.TypeString {
				copy(in[name].Bytes(), x.Bytes())
				continue
			}
			in[name] = x.Clone()
			if err := b.BindCPUInput(name, in[name]); err != nil {
				t.Fatalf("bind %s: %v\n%s", name, err, c)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want[i])) {
			w, ok := want[i][name].(*tensor.Tensor)
			if !ok || w.DType() == tensor.TypeString {
				return nil
			}
			if !same(out[name], w) {
				out[name] = tensor.Must(tensor.Zeros(w.DType(), w.Shape()...))
				if err := b.BindCPUOutput(name, out[name]); err != nil {
					t.Fatalf("bind %s: %v\n%s", name, err, c)
				}
			}
		}
		for range 3 {
			for _, y := range out {
				for k := range y.Bytes() {
					y.Bytes()[k] = 0x55
				}
			}
			if err := s.RunBinding(context.Background(), b, nil); err != nil {
				t.Fatalf("run with bound outputs: %v\n%s", err, c)
			}
		}
		got := map[string]tensor.Value{}
		for name, y := range out {
			got[name] = y.Clone()
		}
		r = append(r, got)
	}
	return r
}
