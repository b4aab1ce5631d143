package main

import "container/list"

// data is a tensor that a node reads or writes, or the weights that its operator has packed.
type data struct {
	key     any // equal for the same memory
	bytes   float64
	weights bool // which all teams read
}

// cache is a last-level cache. It drops first what has not been used for longest.
type cache struct {
	size, used float64
	order      *list.List // of data, the last used one first
	at         map[any]*list.Element
}

func newCache(size float64) *cache {
	return &cache{size: size, order: list.New(), at: map[any]*list.Element{}}
}

// use returns how many bytes of the data are not in the cache, and puts them there.
func (c *cache) use(d data) (missing float64) {
	e, ok := c.at[d.key]
	if !ok {
		e = c.order.PushFront(data{key: d.key})
		c.at[d.key] = e
	}
	held := e.Value.(data)
	missing = max(0, d.bytes-held.bytes)
	held.bytes += missing
	e.Value = held
	c.order.MoveToFront(e)
	for c.used += missing; c.used > c.size; {
		last := c.order.Remove(c.order.Back()).(data)
		delete(c.at, last.key)
		c.used -= last.bytes
	}
	return missing
}

// sharing returns how many of several teams of a number of threads share a last-level cache, 0 if
// what a team has written may be in another one.
func (p *processor) sharing(teams, threads int) int {
	switch {
	case p.cache == 0:
		return 0
	case p.chiplet == 0:
		return teams
	case p.chiplet%threads == 0:
		return min(teams, p.chiplet/threads)
	}
	return 0
}

// traffic returns how many bytes of each node the memory moves if several teams run the trace side
// by side, not for the first time. One copy of the weights serves all teams that share a cache.
func (p *processor) traffic(trace []step, teams, threads int) []float64 {
	bytes := make([]float64, len(trace))
	sharing, size := p.sharing(teams, threads), p.cache
	if sharing == 0 {
		sharing, size = 1, 0
	}
	c := newCache(size)
	for range 2 {
		for i := range trace {
			bytes[i] = 0
			for _, d := range trace[i].data {
				if !d.weights {
					d.bytes *= float64(sharing)
				}
				bytes[i] += c.use(d) * float64(teams) / float64(sharing)
			}
		}
	}
	return bytes
}
