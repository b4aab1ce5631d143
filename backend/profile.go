package backend

import (
	"slices"
	"sync"
	"time"

	"github.com/onward-ml/onward"
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
	p.events = append(p.events, ProfileEvent{Name: n.Name, OpType: n.OpType, Start: n.Start.Sub(p.begin), Duration: n.Duration})
}

// Profiling returns the events since its last call, and how many more were dropped because a
// profile holds at most 2²⁰ of them. It returns nothing without [Options.Profile].
func (r *Rep) Profiling() (events []ProfileEvent, dropped int) {
	if r.profile == nil {
		return nil, 0
	}
	p := r.profile
	p.mu.Lock()
	defer p.mu.Unlock()
	events, dropped = p.events, p.dropped
	p.events, p.dropped, p.begin = nil, 0, time.Time{}
	return slices.Clip(events), dropped
}
