package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/machine"
	"github.com/onward-ml/onward/internal/testing/cputime"
)

// usage is what runs of a network take.
type usage struct {
	Memory int64         // bytes reserved at once, at most
	CPU    time.Duration // least processor time of a run
}

// measure prints the usage of a network: the memory as on a machine with GOMAXPROCS processors, and
// the processor time on this one.
func measure(ctx context.Context, file string, threads, runs int) error {
	n := &network{file: file}
	u := usage{CPU: time.Hour}
	budget := onward.NewMemoryBudget(0)
	s, feed, err := n.openOn(ctx, cmp.Or(threads, runtime.GOMAXPROCS(0)), onward.Limits{Budget: budget})
	if err != nil {
		return err
	}
	idle := budget.Used()
	watch := &onward.RunOptions{Observe: func(onward.NodeRun) { u.Memory = max(u.Memory, budget.Used()-idle) }}
	for range 2 {
		if _, err := s.Run(ctx, feed, watch); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, feed, err = n.open(ctx, threads, onward.Limits{}); err != nil {
		return err
	}
	defer s.Close()
	for i := range runs + 1 { // the first one plans and captures
		start, began, count := cputime.Processor(), time.Now(), 0
		for ; time.Since(began) < blockTime; count++ {
			if _, err := s.Run(ctx, feed, nil); err != nil {
				return err
			}
		}
		if i > 0 {
			u.CPU = min(u.CPU, (cputime.Processor()-start)/time.Duration(count))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(u)
}

// blockTime is the time of a block of runs that are timed together: Linux adds the processor time
// of other threads that run at their next tick only.
const blockTime = 100 * time.Millisecond

// rounds is the number of processes that measure a network, for each number of processors in turn,
// so that what else runs on the machine does not decide.
const rounds = 3

// memoryTable returns the table of memory and processor time.
func memoryTable(ctx context.Context, files []string, runs int) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `The memory that a run reserves, which is the memory limit that it needs, as on a machine with GOMAXPROCS
processors, and the processor time of a run on %s with %d processors: of %d processes per number of processors in turn,
the median of the least times per run of blocks of 100 ms. No more threads run than there are processors. Written by `+"`make bench-scale`"+`.

`, machine.CPU(), runtime.NumCPU(), rounds)
	procs := []int{2, 16, 64, 192}
	b.WriteString("| network | threads |")
	for _, p := range procs {
		fmt.Fprintf(&b, " GOMAXPROCS %d |", p)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(procs)) + "\n")
	for _, file := range files {
		for _, threads := range []int{1, 0} {
			line := fmt.Sprintf("| %s | %s |", title(file), map[int]string{0: "all", 1: "1"}[threads])
			all := make([][]usage, len(procs))
			for range rounds {
				for i, p := range procs {
					cmd := exec.CommandContext(ctx, self, "-measure", fmt.Sprint(threads), "-runs", fmt.Sprint(runs),
						file)
					cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", p))
					cmd.Stderr = os.Stderr
					out, err := cmd.Output()
					if err != nil {
						return "", fmt.Errorf("%s: %w", file, err)
					}
					var u usage
					if err := json.Unmarshal(out, &u); err != nil {
						return "", err
					}
					all[i] = append(all[i], u)
				}
			}
			for _, u := range all {
				slices.SortFunc(u, func(a, b usage) int { return cmp.Compare(a.CPU, b.CPU) })
				line += fmt.Sprintf(" %.2f MB, %s |", float64(u[0].Memory)/1e6, duration(float64(u[len(u)/2].CPU)))
			}
			line += "\n"
			fmt.Fprint(os.Stderr, line)
			b.WriteString(line)
		}
	}
	return b.String(), nil
}
