package tokenizer

// trie maps byte strings to values. Edges are entries of one hash table, so that a trie is
// built in time linear in its strings.
type trie struct {
	keys   []uint64 // node<<8 | byte, plus 1; 0 is free
	next   []int32
	count  int
	shift  uint
	values []int32 // by node, -1 for none
	root   [256]int32

	opening *opening // reserves the tables
}

// slotBytes is the memory of an entry of a table, and of half a node.
const slotBytes = 15

func newTrie(bytes int, o *opening) *trie {
	t := &trie{values: []int32{-1}, opening: o}
	for i := range t.root {
		t.root[i] = -1
	}
	bits := uint(8)
	for 1<<bits < bytes {
		bits++
	}
	t.resize(bits) // else nothing will be added
	return t
}

// resize makes the table larger, unless opening ends.
func (t *trie) resize(bits uint) bool {
	keys, next := t.keys, t.next
	if !t.opening.keep(slotBytes * (1<<bits - len(keys))) {
		return false
	}
	t.keys, t.next, t.shift = make([]uint64, 1<<bits), make([]int32, 1<<bits), 64-bits
	for i, k := range keys {
		if k != 0 {
			j := t.slot(k)
			t.keys[j], t.next[j] = k, next[i]
		}
	}
	return true
}

func (t *trie) slot(key uint64) int {
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.keys[i] != key && t.keys[i] != 0 {
		if i++; i == len(t.keys) {
			i = 0
		}
	}
	return i
}

// child returns the node after byte c, or -1.
func (t *trie) child(node int32, c byte) int32 {
	if node == 0 {
		return t.root[c]
	}
	i := t.slot(uint64(node)<<8 | uint64(c) + 1)
	if t.keys[i] == 0 {
		return -1
	}
	return t.next[i]
}

// add stores a value, and returns the value that s had before, or -1. It stores none if opening
// ends.
func (t *trie) add(s string, value int32) int32 {
	node := int32(0)
	if t.opening != nil && t.opening.err != nil {
		return -1
	}
	for i := range len(s) {
		n := t.child(node, s[i])
		if n < 0 {
			if node > 0 && 2*(t.count+1) > len(t.keys) && !t.resize(64-t.shift+1) {
				return -1
			}
			n = int32(len(t.values))
			t.values = append(t.values, -1)
			if node == 0 {
				t.root[s[i]] = n
			} else {
				t.count++
				key := uint64(node)<<8 | uint64(s[i]) + 1
				j := t.slot(key)
				t.keys[j], t.next[j] = key, n
			}
		}
		node = n
	}
	old := t.values[node]
	t.values[node] = value
	return old
}

// longest returns the length and the value of the longest prefix of s in the trie, 0 and -1
// if there is none, and how many bytes of s it has read.
func (t *trie) longest(s []byte) (size int, value int32, read int) {
	value = -1
	node := int32(0)
	for ; read < len(s); read++ {
		if node = t.child(node, s[read]); node < 0 {
			break
		}
		if v := t.values[node]; v >= 0 {
			size, value = read+1, v
		}
	}
	return size, value, read
}
