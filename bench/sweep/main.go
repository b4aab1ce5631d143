// Command sweep measures every operator that ONNX Runtime supports against it, each in a model of
// its own, on one thread or, with -threads, on several. It prints the cases in which the cpu engine
// is slower, worst first, and the geometric mean of all.
//
// The cases are typical shapes (cases.txt) and, for the other operators, those of the ONNX suite
// and the recorded cases, enlarged to about 32 Ki elements. The providers alternate in short
// blocks. The ratio is ONNX Runtime's fastest run divided by the cpu engine's: other processes
// disturb the fastest runs least.
//
// -cases measures other shapes, for example those of a model:
//
//	echo 'Conv | f32 | T 1x16x80x80; !T 32x16x3x3 | pads=[1,1,1,1]' > cases; go run ./bench/sweep -all -cases cases
//
// -record writes the ratios to a file, of the same run as -out. -check compares them with those of
// the file, measures the cases that fell again, and fails if any stays more than 10 % below.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/gate"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/bench/internal/page"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// options are the flags.
type options struct {
	duration time.Duration
	rounds   int
	threads  int
	shortest time.Duration
	below    float64
	all      bool
	trace    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	only := flag.String("only", "", "only cases whose operator, shapes and attributes match this regular expression")
	out := flag.String("out", "", "write the section \""+heading+"\" of this file")
	file := flag.String("cases", "", "measure only the cases of this file, which has the form of cases.txt")
	extra := flag.Int("drawn", 2, "cases of the suite or recorded ones for an operator without typical shapes")
	flag.DurationVar(&o.duration, "duration", 3*time.Millisecond, "how long a block is timed")
	flag.IntVar(&o.rounds, "rounds", 5,
		"blocks per provider; cases below the limit are measured again with three times as many")
	flag.IntVar(&o.threads, "threads", 1, "threads of a run; with several, a sweep takes a quarter of an hour, since "+
		"blocks wait for ONNX Runtime's threads")
	flag.DurationVar(&o.shortest, "shortest", 8*time.Microsecond,
		"leave out cases that ONNX Runtime computes in less: they measure the call")
	flag.Float64Var(&o.below, "below", .9, "print cases with a lower ratio")
	flag.BoolVar(&o.all, "all", false, "print every case")
	flag.BoolVar(&o.trace, "trace", false, "print a case before it runs")
	p := gate.Program{Section: "sweep", Limit: .1, Retries: 4, Processor: machine.CPU(), Kernels: cpu.Active().String()}
	flag.StringVar(&p.Check, "check", "",
		"compare the ratios with those of this file, and name the cases that fell by more than 10 %")
	flag.StringVar(&p.Record, "record", "", "write the ratios to this file")
	flag.Parse()
	if o.threads != 1 {
		p.Section = fmt.Sprintf("sweep on %d threads", o.threads)
	}
	re, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	lib, err := ortlib.Find()
	if err != nil {
		return fmt.Errorf("%w: run make suite", err)
	}
	os.Setenv(ortlib.Env, lib)
	var groups []group
	if *file == "" {
		groups, err = gather(*extra)
	} else {
		var table []byte
		table, err = os.ReadFile(*file)
		groups, _ = parse(*file, string(table))
	}
	if err != nil {
		return err
	}
	var results []*result
	short := 0
	for _, group := range groups {
		found := 0
		cases, err := group.cases()
		if err != nil {
			return err
		}
		for i, c := range cases {
			if group.want > 0 && found == group.want || !re.MatchString(label(c)) {
				continue
			}
			if o.trace {
				fmt.Fprintln(os.Stderr, label(c))
			}
			r, err := measure(ctx, c, &o)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errNotCompared):
				if group.want == 0 { // a case of cases.txt
					fmt.Fprintf(os.Stderr, "%s: %v\n", label(c), err)
				}
			case err != nil:
				return fmt.Errorf("%s: %w", label(c), err)
			case r.min[1] < o.shortest.Seconds():
				short++
			default:
				found++
				r.of = func() (*opfuzz.Case, error) {
					cases, err := group.cases()
					return cases[i], err
				}
				results = append(results, r)
				if o.all {
					fmt.Println(r)
				}
			}
		}
	}
	if len(results) == 0 {
		return errors.New("no case was compared")
	}
	text := report(slices.Clone(results), short, &o)
	if *out != "" {
		old, err := os.ReadFile(*out)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(*out, 0o666, []byte(page.Replace(string(old), heading, text, ""))); err != nil {
			return err
		}
	}
	if p.Check != "" || p.Record != "" {
		ratios, byName := map[string]float64{}, map[string]*result{}
		for _, r := range results {
			name := r.name
			for n := 2; byName[name] != nil; n++ { // in an opset or with constants of its own
				name = fmt.Sprintf("%s (%d)", r.name, n)
			}
			ratios[name], byName[name] = r.ratio(), r
		}
		o.rounds *= 3
		return p.Finish(ratios, func(name string) (float64, error) {
			c, err := byName[name].of()
			if err != nil {
				return 0, err
			}
			r, err := measure(ctx, c, &o)
			if err != nil {
				return 0, err
			}
			return r.ratio(), nil
		})
	}
	fmt.Print(text)
	return nil
}

// group makes the cases of one operator or of one line of cases.txt; want limits how many
// of them are measured, 0 for all. They are made when they are measured: with a large heap,
// the Go runtime allocates each output in fresh pages, and operators that only move data
// would measure page faults.
type group struct {
	cases func() ([]*opfuzz.Case, error)
	want  int
}

func gather(extra int) ([]group, error) {
	groups, seen := parse("cases.txt", typical)
	s, err := suite.Find()
	if err != nil {
		return nil, fmt.Errorf("%w: run make suite", err)
	}
	seeds, err := opfuzz.Load(".", s.Dir)
	if err != nil {
		return nil, err
	}
	for _, d := range kit.All() {
		name := kit.QualifiedName(d.Domain, d.Name)
		if d.Domain == "onward" || d.Domain == kit.DomainNchwc || seen[name] || extra == 0 {
			continue
		}
		seen[name] = true
		groups = append(groups, group{func() ([]*opfuzz.Case, error) { return drawn(seeds, name, extra), nil }, extra})
	}
	return groups, nil
}

// result holds the seconds of one run of cpu and of ONNX Runtime.
type result struct {
	of          func() (*opfuzz.Case, error)
	name        string
	min, median [2]float64
}

func (r *result) ratio() float64 { return r.min[1] / r.min[0] }

func (r *result) String() string {
	return fmt.Sprintf("%.2f (median %.2f) %9.1f %9.1f µs  %s", r.ratio(), r.median[1]/r.median[0], r.min[0]*1e6,
		r.min[1]*1e6, r.name)
}

var errNotCompared = errors.New("ONNX Runtime does not run it")

// measure times a case on both providers, in alternating blocks.
func measure(ctx context.Context, c *opfuzz.Case, o *options) (*result, error) {
	if opfuzz.CrashesORT(c) {
		return nil, errNotCompared
	}
	m, feed, err := c.Model()
	if err != nil || len(feed) == 0 { // without inputs ONNX Runtime folds the node
		return nil, errNotCompared
	}
	for _, in := range m.Graph.Inputs { // fixed shapes
		if t := in.Type.Tensor; t != nil && t.Shape != nil {
			for i, n := range feed[in.Name].(*tensor.Tensor).Shape() {
				t.Shape.Dims[i] = onnx.Dim{Kind: onnx.DimValue, Value: int64(n)}
			}
		}
	}
	var sessions [2]*onward.Session
	for i, p := range []string{"ort", "cpu"} { // ONNX Runtime first: it refuses many
		s, err := onward.OpenModel(ctx, m,
			&onward.SessionOptions{Threads: o.threads, Providers: []onward.ProviderConfig{{Name: p}}})
		if err == nil {
			defer s.Close()
			first, cancel := context.WithTimeout(ctx, 5*time.Second) // enlarging some drawn cases makes them endless
			_, err = s.Run(first, feed, nil)
			cancel()
		}
		if err != nil && (p == "ort" || c.From != typicalCase) { // the random contents of a drawn case may be invalid
			return nil, fmt.Errorf("%w: %v", errNotCompared, err)
		} else if err != nil {
			return nil, err
		}
		sessions[1-i] = s
	}
	times := [2][]float64{}
	r := &result{name: label(c)}
	runtime.GC()                       // what is left of other cases does not count
	free := context.WithoutCancel(ctx) // a context that can end costs some providers a watcher for each run
	for _, rounds := range []int{o.rounds, 2 * o.rounds} {
		for round := range rounds {
			for i := range sessions {
				k := i ^ round&1
				if o.threads > 1 {
					time.Sleep(spinning)
				}
				t, err := block(func() error { _, err := sessions[k].Run(free, feed, nil); return err }, o.duration)
				if err != nil {
					return nil, err
				}
				times[k] = append(times[k], t...)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		for k := range times {
			slices.Sort(times[k])
			r.min[k], r.median[k] = times[k][0], times[k][len(times[k])/2]
		}
		if r.ratio() > o.below+.1 {
			break
		}
	}
	return r, nil
}

// spinning is longer than ONNX Runtime's threads spin after a run, 40 ms, and take processors
// from the next provider.
const spinning = 45 * time.Millisecond

// block times runs for about the duration, after some that are not timed, and returns the seconds
// of each. Short runs are timed in groups because of the resolution of the clock.
func block(run func() error, duration time.Duration) ([]float64, error) {
	n := 0
	begin := time.Now()
	for ; n == 0 || time.Since(begin) < duration/3; n++ {
		if err := run(); err != nil {
			return nil, err
		}
	}
	each := 1 + int(10*time.Microsecond/max(time.Since(begin)/time.Duration(n), 1))
	var times []float64
	for begin := time.Now(); len(times) == 0 || time.Since(begin) < duration; {
		start := time.Now()
		for range each {
			if err := run(); err != nil {
				return nil, err
			}
		}
		times = append(times, time.Since(start).Seconds()/float64(each))
	}
	return times, nil
}

const heading = "## Single operators"

// report returns the section of the page: the geometric mean, and the slower cases, worst first.
func report(results []*result, short int, o *options) string {
	slices.SortStableFunc(results, func(a, b *result) int { return cmp.Compare(a.ratio(), b.ratio()) })
	var minima, medians float64
	ops := map[string]bool{}
	for _, r := range results {
		minima += math.Log(r.ratio())
		medians += math.Log(r.median[1] / r.median[0])
		name, _, _ := strings.Cut(r.name, " ")
		ops[name] = true
	}
	n := float64(len(results))
	slower := slices.IndexFunc(results, func(r *result) bool { return r.ratio() >= o.below })
	if slower < 0 {
		slower = len(results)
	}
	threads := "one thread"
	if o.threads != 1 {
		threads = fmt.Sprintf("%d threads", o.threads)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `%s

Every operator that ONNX Runtime supports runs alone, on %s, in typical shapes and types (bench/sweep). The ratio is that of
the fastest runs. %d cases that ONNX Runtime computes in less than %v are left out.

Measured on %s (%s/%s), kernels %s, %s.

%d cases of %d operators: geometric mean %.2f (of medians %.2f), %d below %.2g.
`, heading, threads, short, o.shortest, machine.CPU(), runtime.GOOS, runtime.GOARCH, cpu.Active(), runtime.Version(),
		len(results), len(ops), math.Exp(minima/n), math.Exp(medians/n), slower, o.below)
	if slower > 0 {
		b.WriteString(
			"\n| operator, inputs, attributes | cpu | ort | ratio | of medians |\n|---|---:|---:|---:|---:|\n")
	}
	for _, r := range results[:slower] {
		fmt.Fprintf(&b, "| %s | %.4g µs | %.4g µs | %.2f | %.2f |\n", strings.ReplaceAll(r.name, "|", `\|`),
			r.min[0]*1e6, r.min[1]*1e6, r.ratio(), r.median[1]/r.median[0])
	}
	return b.String()
}
