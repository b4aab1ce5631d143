package backend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
)

// maxEvents bounds the memory of a profile; further events are only counted.
const maxEvents = 1 << 20

// ProfileEvent is the execution of one node.
type ProfileEvent struct {
	Name     string // of the node, may be empty
	OpType   string
	Start    time.Duration // since the first event of the profile
	Duration time.Duration
}

// profile collects the events of all runs.
type profile struct {
	mu      sync.Mutex
	begin   time.Time
	events  []ProfileEvent
	dropped int

	// dir holds the profile that a native library writes; "" for the Go engine. ended says
	// that it has been read.
	dir   string
	ended bool
}

// newProfile returns the profile for a Rep, and the options of a session that fills it. The Go
// engine reports its nodes in each run; a native library writes a file of its own.
func newProfile(b Backend, opts *onward.SessionOptions) (*profile, *onward.SessionOptions, error) {
	if p, ok := b.(Provider); !ok || p.traits().Operators {
		return &profile{}, opts, nil
	}
	dir, err := os.MkdirTemp("", "onward-profile-")
	if err != nil {
		return nil, nil, driver.Errorf(driver.CodeFail, "folder of the profile: %w", err)
	}
	o := (&Options{Session: opts}).sessionOptions()
	o.EnableProfiling, o.ProfilePrefix = true, filepath.Join(dir, "p")
	return &profile{dir: dir}, &o, nil
}

// close removes the file.
func (p *profile) close() error {
	if p == nil || p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

// observe returns options of a run that also record events.
func (p *profile) observe(opts *onward.RunOptions) *onward.RunOptions {
	o := onward.RunOptions{}
	if opts != nil {
		o = *opts
	}
	also := o.Observe
	o.Observe = func(n onward.NodeRun) {
		p.add(n)
		if also != nil {
			also(n)
		}
	}
	return &o
}

func (p *profile) add(n onward.NodeRun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begin.IsZero() {
		p.begin = n.Start
	}
	if len(p.events) == maxEvents {
		p.dropped++
		return
	}
	p.events = append(p.events,
		ProfileEvent{Name: n.Name, OpType: n.OpType, Start: n.Start.Sub(p.begin), Duration: n.Duration})
}

// Profiling returns the events since its last call, and how many more were dropped because a
// profile holds at most 2²⁰ of them. It returns nothing without [Options.Profile].
//
// With a native library, the events are those of the library's own profile, with the library's
// names of its nodes. It ends with the first call; later calls return NOT_IMPLEMENTED.
func (r *Rep) Profiling() (events []ProfileEvent, dropped int, err error) {
	p := r.profile
	if p == nil {
		return nil, 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		if p.ended {
			return nil, 0, driver.Errorf(driver.CodeNotImplemented,
				"the profile of provider %s ended when it was read; prepare the model again for another one",
				r.Session.Provider())
		}
		p.ended = true
		events, err = endProfiling(r.Session)
		return events, 0, err
	}
	events, dropped = p.events, p.dropped
	p.events, p.dropped, p.begin = nil, 0, time.Time{}
	return slices.Clip(events), dropped, nil
}

// endProfiling ends the profile of a session and reads the nodes from its file.
func endProfiling(s *onward.Session) ([]ProfileEvent, error) {
	name, err := s.EndProfiling()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, driver.Errorf(driver.CodeFail, "the profile cannot be read: %w", err)
	}
	return readProfile(data)
}

// kernelTime ends the names of the events of nodes in ONNX Runtime's profiles.
const kernelTime = "_kernel_time"

// readProfile returns the nodes in a profile in ONNX Runtime's form of the trace event format,
// in the order of their start.
func readProfile(data []byte) ([]ProfileEvent, error) {
	var all []struct {
		Cat, Name string
		TS, Dur   float64 // microseconds
		Args      struct {
			OpName string `json:"op_name"`
			Index  string `json:"node_index"`
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, driver.Errorf(driver.CodeFail, "the profile cannot be read: %w", err)
	}
	us := func(x float64) time.Duration { return time.Duration(x * float64(time.Microsecond)) }
	var events []ProfileEvent
	for _, e := range all {
		name, ok := strings.CutSuffix(e.Name, kernelTime)
		if e.Cat != "Node" || !ok {
			continue
		}
		// A node without a name is called after its operator and index.
		if _, err := strconv.Atoi(e.Args.Index); err == nil &&
			name == fmt.Sprintf("%s_%s", e.Args.OpName, e.Args.Index) {
			name = ""
		}
		events = append(events, ProfileEvent{Name: name, OpType: e.Args.OpName, Start: us(e.TS), Duration: us(e.Dur)})
	}
	sort.SliceStable(events, func(i, k int) bool { return events[i].Start < events[k].Start })
	for i := range slices.Backward(events) {
		events[i].Start -= events[0].Start
	}
	return events, nil
}
