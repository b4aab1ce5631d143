package modelgraph

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
)

const (
	fewBoxes   = 12  // levels with at most as many boxes are left as they are
	minBlock   = 4   // nodes of the smallest sequence that is searched
	fewNodes   = 3   // modules with fewer nodes are not drawn as blocks
	longPeriod = 256 // boxes of the longest sequence whose repetitions are found
	manyCycles = 200 // cycles among modules, after which all of them are dissolved
)

// level is the set of boxes that are drawn side by side: nodes and blocks of a graph.
type level struct {
	*builder
	reads   map[int][]int // values that a node reads from around it, those of its subgraphs included
	outputs map[int]bool  // values that leave the graph
	kids    map[int][]int // boxes of a block, in the order of execution
	order   map[int]int   // position of the first node of a box
	hash    map[int]uint64
	named   map[int]bool // blocks with the names of modules
}

// group joins the nodes of a graph to blocks: those of a module, by the names of the nodes, and
// sequences of operators that repeat. Blocks are convex: no path leaves one and comes back, so that
// the boxes have no cycle. last is the end index of the items of the last node.
func (b *builder) group(items []int, last, parent int) {
	if len(items) <= fewBoxes {
		return
	}
	l := &level{builder: b, reads: map[int][]int{}, outputs: map[int]bool{}, kids: map[int][]int{},
		order: map[int]int{}, hash: map[int]uint64{}, named: map[int]bool{}}
	for k, i := range items {
		end := last
		if k+1 < len(items) {
			end = max(items[k+1], i+1)
		}
		l.order[i] = k
		made := map[int]bool{-1: true}
		for _, x := range b.Items[i:end] {
			for _, v := range x.Out {
				made[v] = true
			}
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %s %d", b.Items[i].Domain, b.Items[i].Title, len(b.Items[i].In))
		for _, x := range b.Items[i:end] {
			for _, v := range x.In {
				if v >= 0 && b.Values[v].Weight > 0 {
					h.Write([]byte{'w'})
				} else if !made[v] {
					made[v] = true
					l.reads[i] = append(l.reads[i], v)
				}
			}
		}
		l.hash[i] = h.Sum64()
	}
	for _, x := range b.Items {
		if x.Kind == Output && x.Parent == parent {
			l.outputs[x.In[0]] = true
		}
	}
	top := l.modules(items, 0, true)
	top = l.blocks(top)
	l.place(top, parent)
	l.alike()
}

// modules returns the boxes for nodes whose names agree in their first depth modules. whole holds
// if these are all nodes, for which no block is drawn.
func (l *level) modules(items []int, depth int, whole bool) []int {
	var boxes []int
	members := map[string][]int{}
	for _, i := range items {
		if path := l.paths[i]; len(path) > depth {
			if members[path[depth]] == nil {
				boxes = append(boxes, -i-1) // replaced below
			}
			members[path[depth]] = append(members[path[depth]], i)
		} else {
			boxes = append(boxes, i)
		}
	}
	var r []int
	for _, x := range boxes {
		if x >= 0 {
			r = append(r, x)
			continue
		}
		name := l.paths[-x-1][depth]
		list := members[name]
		whole := whole && len(list) == len(items)
		inner := l.modules(list, depth+1, whole)
		switch {
		case len(list) < fewNodes || whole:
			r = append(r, inner...)
		case len(inner) == 1:
			l.Items[inner[0]].Title = clean(name + "/" + l.Items[inner[0]].Title)
			r = append(r, inner[0])
		default:
			x := l.block(name, inner)
			l.named[x] = true
			r = append(r, x)
		}
	}
	return l.acyclic(r)
}

// unplaced is the parent of blocks that are not in the drawing: not yet, or because they were
// dissolved.
const unplaced = -2

// block adds a block of boxes.
func (l *level) block(title string, boxes []int) int {
	i := l.add(unplaced, Block, title, "")
	l.Items[i].Class = otherClass
	l.kids[i] = boxes
	l.order[i] = math.MaxInt
	for _, x := range boxes {
		l.order[i] = min(l.order[i], l.order[x])
	}
	return i
}

// leaves returns the nodes of a box, in the order of execution.
func (l *level) leaves(box int) []int {
	if l.Items[box].Kind != Block {
		return []int{box}
	}
	return l.leavesOf(l.kids[box])
}

func (l *level) leavesOf(boxes []int) []int {
	var r []int
	for _, x := range boxes {
		r = append(r, l.leaves(x)...)
	}
	return r
}

// flow says which values go between boxes.
type flow struct {
	reads, makes [][]int       // values of each box
	users        map[int][]int // positions of the boxes that read a value
	maker        map[int]int   // position of the box that makes a value
}

func (l *level) flow(boxes []int) *flow {
	f := &flow{reads: make([][]int, len(boxes)), makes: make([][]int, len(boxes)), users: map[int][]int{},
		maker: map[int]int{}}
	for k, x := range boxes {
		for _, i := range l.leaves(x) {
			for _, v := range l.Items[i].Out {
				if v >= 0 {
					f.makes[k] = append(f.makes[k], v)
					f.maker[v] = k
				}
			}
		}
	}
	for k, x := range boxes {
		seen := map[int]bool{}
		for _, i := range l.leaves(x) {
			for _, v := range l.reads[i] {
				if m, ok := f.maker[v]; !seen[v] && !(ok && m == k) {
					seen[v] = true
					f.reads[k] = append(f.reads[k], v)
					f.users[v] = append(f.users[v], k)
				}
			}
		}
	}
	return f
}

// acyclic returns boxes in an order of execution. Nodes on a path that leaves a block and comes
// back join it; of several blocks in one cycle, the smallest is dissolved.
func (l *level) acyclic(boxes []int) []int {
	for round := 0; ; round++ {
		if round == manyCycles {
			boxes = l.leavesOf(boxes)
		}
		f := l.flow(boxes)
		cycle := l.cycle(boxes, f)
		if cycle == nil {
			return l.ordered(boxes, f)
		}
		smallest, blocks := -1, 0
		for _, k := range cycle {
			if x := boxes[k]; l.Items[x].Kind == Block {
				blocks++
				if smallest < 0 || len(l.leaves(x)) < len(l.leaves(smallest)) {
					smallest = x
				}
			}
		}
		in := map[int]bool{}
		for _, k := range cycle {
			in[boxes[k]] = true
		}
		var rest, joining []int
		switch blocks {
		case 0: // nodes of a model that is not valid
			return boxes
		case 1:
			for _, x := range boxes {
				if in[x] && x != smallest {
					joining = append(joining, x)
				} else {
					rest = append(rest, x)
				}
			}
			l.kids[smallest] = append(l.kids[smallest], joining...)
			l.kids[smallest] = l.acyclic(l.kids[smallest])
		default:
			for _, x := range boxes {
				if x != smallest {
					rest = append(rest, x)
				}
			}
			rest = append(rest, l.kids[smallest]...)
		}
		boxes = rest
	}
}

// cycle returns the positions of boxes that are on one cycle, nil for an acyclic graph.
func (l *level) cycle(boxes []int, f *flow) []int {
	index, low, stack := make([]int, len(boxes)), make([]int, len(boxes)), []int(nil)
	on := make([]bool, len(boxes))
	next := 0
	var found []int
	var visit func(k int)
	visit = func(k int) { // Tarjan's algorithm
		next++
		index[k], low[k], on[k] = next, next, true
		stack = append(stack, k)
		for _, v := range f.makes[k] {
			for _, u := range f.users[v] {
				if index[u] == 0 {
					visit(u)
					low[k] = min(low[k], low[u])
				} else if on[u] {
					low[k] = min(low[k], index[u])
				}
			}
		}
		if low[k] < index[k] {
			return
		}
		at := slices.Index(stack, k)
		if len(stack)-at > 1 && found == nil {
			found = slices.Clone(stack[at:])
		}
		for _, x := range stack[at:] {
			on[x] = false
		}
		stack = stack[:at]
	}
	for k := range boxes {
		if index[k] == 0 {
			visit(k)
		}
	}
	return found
}

// ordered returns boxes in an order of execution, in that of their first nodes where
// there is a choice.
func (l *level) ordered(boxes []int, f *flow) []int {
	waits := make([]int, len(boxes))
	for k := range boxes {
		for _, v := range f.reads[k] {
			if _, ok := f.maker[v]; ok {
				waits[k]++
			}
		}
	}
	byOrder := func(a, b int) int { return cmp.Compare(l.order[boxes[b]], l.order[boxes[a]]) } // the first is last
	var ready, r []int
	push := func(k int) {
		at, _ := slices.BinarySearchFunc(ready, k, byOrder)
		ready = slices.Insert(ready, at, k)
	}
	for k := range boxes {
		if waits[k] == 0 {
			push(k)
		}
	}
	for len(ready) > 0 {
		k := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		r = append(r, boxes[k])
		for _, v := range f.makes[k] {
			for _, u := range f.users[v] {
				if waits[u]--; waits[u] == 0 {
					push(u)
				}
			}
		}
	}
	if len(r) < len(boxes) { // a cycle of nodes, which is not valid
		return boxes
	}
	return r
}

// blocks finds repetitions among boxes and in their blocks, and returns the boxes that remain.
func (l *level) blocks(boxes []int) []int {
	for _, x := range boxes {
		if l.Items[x].Kind == Block {
			l.kids[x] = l.blocks(l.kids[x])
			l.wrap(x)
			l.sign(x)
		}
	}
	for range 8 {
		if len(boxes) <= fewBoxes {
			break
		}
		starts, length := l.repetition(boxes)
		if starts == nil {
			break
		}
		var r []int
		end := 0
		for _, s := range starts {
			r = append(r, boxes[end:s]...)
			end = s + length
			inner := slices.Clone(boxes[s:end])
			x := l.block("", inner)
			if len(inner) > fewBoxes && len(starts)*length < len(boxes)+length {
				l.kids[x] = l.blocks(inner)
			}
			l.sign(x)
			l.Items[x].Title = l.title(x)
			r = append(r, x)
		}
		boxes = l.runs(append(r, boxes[end:]...))
	}
	return boxes
}

// sign sets the hash of a block: of the operators in it.
func (l *level) sign(box int) {
	h := fnv.New64a()
	for _, i := range l.leaves(box) {
		h.Write(binary.LittleEndian.AppendUint64(nil, l.hash[i]))
	}
	l.hash[box] = h.Sum64()
}

// repetition returns where sequences of equal boxes begin, and their length. Of all it takes the
// one that hides most nodes, with a preference for those with few values in and out.
func (l *level) repetition(boxes []int) (starts []int, length int) {
	n := len(boxes)
	nodes := make([]int, n+1) // before each box
	for k, x := range boxes {
		nodes[k+1] = nodes[k] + len(l.leaves(x))
	}
	f := l.flow(boxes)
	best := 0.0
	// of the sequences of length p that begin at a position; those that repeat
	hashes, active := make([]uint64, n), make([]int, n)
	for k, x := range boxes {
		hashes[k], active[k] = l.hash[x], k
	}
	for p := 2; p <= min(n/2, longPeriod, 2_000_000/n) && len(active) > 0; p++ { // linear in p and n
		all := map[uint64][]int{}
		for _, k := range active {
			if k+p <= n {
				hashes[k] = hashes[k]*0x9e3779b97f4a7c15 + l.hash[boxes[k+p-1]]
				all[hashes[k]] = append(all[hashes[k]], k)
			}
		}
		active = slices.DeleteFunc(active, func(k int) bool { return k+p > n || len(all[hashes[k]]) < 2 })
		at := map[uint64][]int{} // without those that overlap
		for _, k := range active {
			if list := at[hashes[k]]; list == nil || k >= list[len(list)-1]+p {
				at[hashes[k]] = append(list, k)
			}
		}
		saving := func(list []int) float64 {
			size := nodes[list[0]+p] - nodes[list[0]]
			if size < minBlock {
				return 0
			}
			return float64((len(list) - 1) * size)
		}
		var lists [][]int
		for _, list := range at {
			if s := saving(list); len(list) > 1 && s > best {
				lists = append(lists, list)
			}
		}
		slices.SortFunc(lists, func(a, b []int) int { return cmp.Or(cmp.Compare(saving(b), saving(a)), a[0]-b[0]) })
		for _, list := range lists[:min(len(lists), 8)] {
			edges := max(f.crossing(list[1], list[1]+p, l.outputs), 1)
			if s := saving(list) / math.Sqrt(float64(edges)); s > best &&
				edges <= max(4, (nodes[list[0]+p]-nodes[list[0]])/2) {
				best, starts, length = s, list, p
			}
		}
	}
	return starts, length
}

// crossing counts the values that boxes from one position to another read from others or make for
// others.
func (f *flow) crossing(from, to int, outputs map[int]bool) int {
	in := map[int]bool{}
	n := 0
	for k := from; k < to; k++ {
		for _, v := range f.reads[k] {
			if m, ok := f.maker[v]; !in[v] && !(ok && m >= from && m < to) {
				in[v] = true
				n++
			}
		}
		for _, v := range f.makes[k] {
			if outputs[v] || slices.ContainsFunc(f.users[v], func(u int) bool { return u < from || u >= to }) {
				n++
			}
		}
	}
	return n
}

// runs joins three and more equal blocks, each of which reads the one before, to one.
func (l *level) runs(boxes []int) []int {
	var r []int
	f := l.flow(boxes)
	chained := func(k int) bool {
		return slices.ContainsFunc(f.reads[k], func(v int) bool { m, ok := f.maker[v]; return ok && m == k-1 })
	}
	for k := 0; k < len(boxes); {
		end := k + 1
		for end < len(boxes) && l.Items[boxes[k]].Kind == Block && l.Items[boxes[end]].Kind == Block &&
			l.hash[boxes[end]] == l.hash[boxes[k]] && chained(end) {
			end++
		}
		if end-k < 3 {
			r = append(r, boxes[k])
			k++
			continue
		}
		x := l.block(l.Items[boxes[k]].Title+" … "+l.Items[boxes[end-1]].Title, slices.Clone(boxes[k:end]))
		if l.Items[boxes[k]].Title == l.Items[boxes[end-1]].Title {
			l.Items[x].Title = l.Items[boxes[k]].Title
		}
		l.Items[x].Repeats = end - k
		l.sign(x)
		r = append(r, x)
		k = end
	}
	return r
}

// wrap joins equal blocks in a module. If the module has no others, it is itself their block.
func (l *level) wrap(box int) {
	kids := l.kids[box]
	if r := l.runs(kids); len(r) == 1 && len(kids) > 1 {
		l.Items[box].Repeats = len(kids)
	} else {
		l.kids[box] = r
	}
}

// place sets the parents of boxes and completes the blocks.
func (l *level) place(boxes []int, parent int) {
	for _, x := range boxes {
		l.Items[x].Parent = parent
		if l.Items[x].Kind == Block {
			l.Items[x].Note = l.operators(x, 5)
			l.place(l.kids[x], x)
		}
	}
}

// alike counts the blocks with the same operators.
func (l *level) alike() {
	count := map[uint64]int{}
	for x := range l.kids {
		if l.Items[x].Parent != unplaced {
			count[l.hash[x]]++
		}
	}
	for x := range l.kids {
		if n := count[l.hash[x]]; l.Items[x].Parent != unplaced && n > 1 {
			l.Items[x].Alike = n
		}
	}
}
