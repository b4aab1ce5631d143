package exec

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// TestBlocks draws sequences of take and give. Blocks in use must not overlap, and chunks without
// blocks must be free as a whole.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			mem []byte
			at  block
		}
		var m blocks
		var a Arenas
		var used []held
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(used) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(used)-1).Draw(t, "which")
				m.give(used[i].at)
				used = slices.Delete(used, i, i+1)
				continue
			}
			n := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(1, 3*firstChunk)).Draw(t, "size")
			b, at := m.take(&a, n)
			if len(b) != n || n > 0 && uintptr(unsafe.Pointer(&b[0]))%align != 0 {
				t.Fatalf("got %d bytes, want %d, aligned to %d", len(b), n, align)
			}
			for _, h := range used {
				if overlapping(h.mem, b) {
					t.Fatalf("block %v overlaps block %v, which is in use", at, h.at)
				}
			}
			used = append(used, held{b, at})
		}
		for _, h := range used {
			m.give(h.at)
		}
		if len(m.free) != len(m.chunks) {
			t.Fatalf("free blocks are %v, want one per chunk of %d", m.free, len(m.chunks))
		}
		chunks := len(m.chunks)
		if m.reset(&a); len(a.idle) != chunks || len(m.chunks)+len(m.free) != 0 {
			t.Fatalf("%d of %d chunks are given back", len(a.idle), chunks)
		}
	})
}

// TestFirstRunReusesMemory checks that the first run with a shape uses the memory of values again
// after their last use, as later runs do.
func TestFirstRunReusesMemory(t *testing.T) {
	ops := make([]ir.Operator, 20)
	for i := range ops {
		ops[i] = addOne{}
	}
	p, err := Compile(t.Context(), chain(t, ops...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 1 << 16 // 1 MiB per value
	out, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(rows)}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, out[0], input(rows), 20)
	total := 0
	for _, b := range p.opts.Arenas.idle {
		total += len(b)
	}
	if total == 0 || total > 4<<20 {
		t.Errorf("the first run of 20 steps with 1 MiB each used %d bytes, want at most 4 MiB", total)
	}
}
