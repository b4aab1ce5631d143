package ir

import (
	"sync"

	"github.com/onward-ml/onward/tensor"
)

// Packs holds what plans of one model derive from its constants, such as packed weights, so that
// each is in memory once. The first user of a Packs adds to it; those of [Packs.Fork] share its
// contents until they are released. A nil Packs shares nothing.
type Packs struct {
	table  *packTable
	used   map[packKey]bool
	forked bool
}

type packTable struct {
	mu sync.Mutex
	m  map[packKey]*pack
}

// packKey identifies a result: the constants that it is derived from, and a comparable value for
// the way, whose type belongs to the caller.
type packKey struct {
	of, with *tensor.Tensor
	how      any
}

type pack struct {
	v     any
	bytes int64
	users int
}

// NewPacks returns an empty Packs.
func NewPacks() *Packs {
	return &Packs{table: &packTable{m: map[packKey]*pack{}}, used: map[packKey]bool{}}
}

// Fork returns the Packs of another user of the same results.
func (p *Packs) Fork() *Packs {
	if p == nil {
		return nil
	}
	return &Packs{p.table, map[packKey]bool{}, true}
}

// Forked reports whether p is the result of [Packs.Fork].
func (p *Packs) Forked() bool { return p != nil && p.forked }

// Release gives up the results of a user. Those without users are freed.
func (p *Packs) Release() {
	if p == nil {
		return
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	for k := range p.used {
		e := p.table.m[k]
		if e.users--; e.users == 0 {
			delete(p.table.m, k)
		}
	}
	p.used = map[packKey]bool{}
}

// Beyond returns the size in bytes of all results that p does not use.
func (p *Packs) Beyond() (n int64) {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	for k, e := range p.table.m {
		if !p.used[k] {
			n += e.bytes
		}
	}
	return n
}

// Peek returns the result that a plan has derived in the way how, if there is one.
func Peek[T any](p *Packs, how any, of, with *tensor.Tensor) (v T, ok bool) {
	k := packKey{of, with, how}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	e := p.table.m[k]
	if e == nil {
		return v, false
	}
	p.use(k, e)
	return e.v.(T), true
}

// use counts p as a user of a result.
func (p *Packs) use(k packKey, e *pack) {
	if !p.used[k] {
		p.used[k] = true
		e.users++
	}
}

// Packed returns the result of derive and its size in bytes, or an equal one that another plan has
// derived in the way how from the same constants. with may be nil.
func Packed[T any](p *Packs, how any, of, with *tensor.Tensor, derive func() (T, int64, error)) (T, error) {
	if p == nil {
		v, _, err := derive()
		return v, err
	}
	k := packKey{of, with, how}
	p.table.mu.Lock()
	e := p.table.m[k]
	p.table.mu.Unlock()
	if e == nil {
		v, n, err := derive()
		if err != nil {
			return v, err
		}
		e = &pack{v: v, bytes: n}
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if first := p.table.m[k]; first != nil {
		e = first
	} else {
		p.table.m[k] = e
	}
	p.use(k, e)
	return e.v.(T), nil
}
