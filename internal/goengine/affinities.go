package goengine

import (
	"strconv"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
)

// mostProcessor is the largest number of a processor that an affinity may have.
const mostProcessor = 1024

// affinities returns the processors, from 0, of each thread of a pool but the caller's, from an
// entry [driver.ConfigThreadAffinities]: "1,2;3-8" for two threads.
func affinities(entry string, threads int) ([][]int, error) {
	if entry == "" {
		return nil, nil
	}
	var all [][]int
	for list := range strings.SplitSeq(entry, ";") {
		var processors []int
		for item := range strings.SplitSeq(list, ",") {
			first, last, interval := strings.Cut(strings.TrimSpace(item), "-")
			from, err := strconv.Atoi(first)
			to := from
			if err == nil && interval {
				to, err = strconv.Atoi(last)
			}
			if err != nil || from < 1 || to < from || to > mostProcessor {
				return nil, fail.Errorf("%s: %q, want a processor from 1 to %d or an interval of them, as in 1,2;3-8",
					driver.ConfigThreadAffinities, item, mostProcessor)
			}
			for ; from <= to; from++ {
				processors = append(processors, from-1)
			}
		}
		all = append(all, processors)
	}
	if len(all) != threads-1 {
		return nil, fail.Errorf("%s has processors for %d threads, want them for %d: all of %d but the caller's",
			driver.ConfigThreadAffinities, len(all), threads-1, threads)
	}
	for _, processors := range all {
		restore, err := cpu.Bind(processors)
		if err != nil {
			return nil, fail.Errorf("%s: %w", driver.ConfigThreadAffinities, err)
		}
		restore()
	}
	return all, nil
}
