// Command scale predicts how runs of networks scale with cores, and measures their memory and
// processor time under other numbers of processors than the machine has.
//
//	go run ./bench -save models -only '^Networks [A-Z]'
//	go run ./bench/scale models/*.onnx
//	go run ./bench/scale -table models/*.onnx
//
// For each number of threads, a session with that many threads runs on one core, chunk by chunk of
// its parallel sections. The times are replayed on as many virtual cores, with the costs of
// handing a section to workers and of chunks that are taken from others, and no node takes less
// time than its bytes take at the bandwidth of the memory, without those that are in a cache that
// all cores share. The clock of the cores is the same for any number of them, and each core reads
// that cache as fast as if it was alone. A batch that the engine divides among teams of threads is
// traced as the part of one team; the teams share the memory and the cache. If threads are bound to
// cores, teams that have no more threads than a chiplet has cores use its cache. -check compares
// the prediction for two threads with a measurement.
// -nodes lists the operators that take the most of the cores' time, and divides it by cause.
//
// -table starts a process for each number of processors and threads, and prints the memory that a
// run reserves and its processor time.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/bench/internal/page"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/internal/cpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

type options struct {
	runs    int
	cores   []int
	batches []int
	nodes   int
	check   bool
}

func run(ctx context.Context) error {
	var o options
	out := flag.String("out", "", "write the section of this file")
	table := flag.Bool("table", false, "measure memory and processor time instead")
	one := flag.Int("measure", -1, "measure runs with that many threads, 0 for all, and print JSON; -table uses it")
	flag.IntVar(&o.runs, "runs", 10, "runs of which the least times are kept")
	cores := flag.String("cores", "2,4,8,16,32,64,128,192", "numbers of virtual cores")
	batches := flag.String("batches", "1,8", "batches")
	flag.IntVar(&o.nodes, "nodes", 0, "list that many operators per network and number of cores")
	flag.BoolVar(&o.check, "check", false, "measure runs with two threads too")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("want model files; see go doc ./bench/scale")
	}
	if *one >= 0 {
		return measure(ctx, flag.Arg(0), *one, o.runs)
	}
	var err error
	if o.cores, err = numbers(*cores); err != nil {
		return err
	}
	if o.batches, err = numbers(*batches); err != nil {
		return err
	}
	var text, heading, next string
	if *table {
		heading, next = page.Cores, page.Networks
		text, err = memoryTable(ctx, flag.Args(), o.runs)
	} else {
		heading, next = page.Scale, page.Cores
		text, err = predict(ctx, flag.Args(), &o)
	}
	if err != nil {
		return err
	}
	text = heading + "\n\n" + text
	if *out == "" {
		fmt.Print(text)
		return nil
	}
	old, err := os.ReadFile(*out)
	if err != nil {
		return err
	}
	if page.Section(string(old), next) == "" {
		next = page.Networks
	}
	return atomicfile.WriteBytes(*out, 0o666, []byte(page.Replace(string(old), heading, text, next)))
}

func numbers(list string) (r []int, err error) {
	for s := range strings.SplitSeq(list, ",") {
		var n int
		if _, err := fmt.Sscan(s, &n); err != nil || n < 1 {
			return nil, fmt.Errorf("number %q: want a positive one", s)
		}
		r = append(r, n)
	}
	return r, nil
}

// predict returns the table of predicted speed-ups.
func predict(ctx context.Context, files []string, o *options) (string, error) {
	dir, err := os.MkdirTemp("", "onward-scale-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	exe, err := machine.Onward(ctx, dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `These figures are predicted, not measured: traces of runs on one core, replayed on virtual cores by
`+"`make bench-scale` (see `go doc ./bench/scale`)"+`. Each is the speed-up over one thread and, in percent, the
efficiency: the speed-up per core.

- Times of kernels are those of %s, kernels %s.
- The clock does not fall with the number of busy cores. Times of reading what other cores have written are not added.
`, machine.CPU(), cpu.Active())
	for i := range processors {
		p := &processors[i]
		fmt.Fprintf(&b, "- %s: up to %d cores. Memory gives %.0f GB/s. A cache line gets to another core in %.0f ns "+
			"(assumed).", p.name, p.cores, p.bandwidth, p.line)
		switch {
		case p.chiplet > 0:
			fmt.Fprintf(&b, ` Each thread is bound to a core, in order. The %d cores of a chiplet share a cache of %.0f MB,
  and lines get from one to another in %.0f ns (assumed). The teams of a batch that have at most so many threads keep what
  they read and write there, with a copy of the weights per chiplet. What does not fit is memory traffic, as is all of
  larger teams and of runs that are not divided.`, p.chiplet, p.cache/1e6, p.near)
		case p.cache > 0:
			fmt.Fprintf(&b, " All cores share a cache of %.0f MB.", p.cache/1e6)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| network | batch | 1 core |")
	list := columns(o.cores)
	for _, c := range list {
		fmt.Fprintf(&b, " %d, %s |", c.used, c.series)
	}
	columns := len(list)
	if o.check {
		b.WriteString(" 2 threads, measured |")
		columns++
	}
	b.WriteString("\n|---|---:|---:|" + strings.Repeat("---:|", columns) + "\n")
	for _, file := range files {
		for _, batch := range o.batches {
			n := &network{name: title(file), file: file}
			if batch > 1 {
				n.file, n.batch = filepath.Join(dir, "batch.onnx"), batch
				cmd := exec.CommandContext(ctx, exe, "edit", "dims", file, "-o", n.file, "--batch", "N")
				if out, err := cmd.CombinedOutput(); err != nil {
					fmt.Fprintf(os.Stderr, "%s: no batch of %d: %v: %s\n", file, batch, err, out)
					continue
				}
			}
			line, err := n.row(ctx, o)
			if err != nil {
				return "", err
			}
			fmt.Fprint(os.Stderr, line)
			b.WriteString(line)
		}
	}
	return b.String(), nil
}

// title is the name of a file that bench has saved.
func title(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".onnx")
	return strings.TrimRight(strings.ReplaceAll(strings.TrimPrefix(name, "Networks_"), "_", " "), " ")
}

// row returns a line of the table.
func (n *network) row(ctx context.Context, o *options) (string, error) {
	serial, err := n.trace(ctx, 1, o.runs)
	if err != nil {
		return "", err
	}
	first, _ := replay(serial, &processors[0], 1, 1)
	line := fmt.Sprintf("| %s | %d | %s |", n.name, max(n.batch, 1), duration(first))
	parts, cores := 0, 0
	var trace []step
	for _, c := range columns(o.cores) {
		if c.used != cores {
			cores = c.used
			if parts, err = n.parts(ctx, cores); err != nil {
				return "", err
			}
			part := *n
			if parts > 1 {
				part.batch = n.batch / parts
			}
			if trace, err = part.trace(ctx, cores/parts, o.runs); err != nil {
				return "", err
			}
		}
		alone, _ := replay(serial, c.processor, 1, 1)
		total, nodes := replay(trace, c.processor, parts, cores/parts)
		if parts > 1 {
			start := section{used: parts, chunks: make([]float64, parts)}
			total += start.replay(c.line)
		}
		speed := alone / total
		line += fmt.Sprintf(" %.1f, %.0f %% |", speed, 100*speed/float64(cores))
		if o.nodes > 0 {
			fmt.Fprintf(os.Stderr, "%s %d %d cores of %s: %s\n", n.name, max(n.batch, 1), cores, c.series,
				causes(trace, c.processor, parts, alone/float64(parts), cores/parts))
			listNodes(trace, serial, nodes, cores, o.nodes)
		}
	}
	if o.check {
		times := map[int]time.Duration{}
		for _, threads := range []int{1, 2} {
			if times[threads], err = n.time(ctx, threads, 5*o.runs); err != nil {
				return "", err
			}
		}
		line += fmt.Sprintf(" %.2f |", float64(times[1])/float64(times[2]))
	}
	return line + "\n", nil
}

// listNodes prints the nodes in which cores wait longest.
func listNodes(trace, serial []step, nodes []float64, cores, most int) {
	order := make([]int, len(trace))
	for i := range order {
		order[i] = i
	}
	lost := func(i int) float64 {
		if len(serial) != len(trace) {
			return nodes[i]
		}
		return nodes[i] - serial[i].work()/float64(cores)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(lost(j), lost(i)) })
	for _, i := range order[:min(most, len(order))] {
		s := &trace[i]
		fmt.Fprintf(os.Stderr, "  %4d %-24s %9s of work %9s, tail %9s:", i, s.op, duration(nodes[i]),
			duration(s.work()), duration(s.tail))
		for j := range s.sections {
			x := &s.sections[j]
			fmt.Fprintf(os.Stderr, " +%s %s/%d×%d", duration(x.before), duration(x.work()), len(x.chunks), x.used)
		}
		fmt.Fprintln(os.Stderr)
	}
}

func duration(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// time returns the least time of a run.
func (n *network) time(ctx context.Context, threads, runs int) (time.Duration, error) {
	s, feed, err := n.open(ctx, threads, onward.Limits{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	least := time.Hour
	for range runs + 3 {
		start := time.Now()
		if _, err := s.Run(ctx, feed, nil); err != nil {
			return 0, err
		}
		least = min(least, time.Since(start))
	}
	return least, nil
}
