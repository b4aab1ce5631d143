package tokenizer

import (
	"errors"
	"fmt"
)

// regexCompiler translates nodes to instructions.
type regexCompiler struct {
	p     *program
	sets  map[*runeSet]int
	width map[int]int // of lookbehinds
	nodes int         // translated so far, also those without instructions
}

func (c *regexCompiler) add(in instruction) int {
	c.p.code = append(c.p.code, in)
	return len(c.p.code) - 1
}

func (c *regexCompiler) set(s *runeSet) int {
	k, ok := c.sets[s]
	if !ok {
		k = len(c.p.sets)
		c.sets[s] = k
		c.p.sets = append(c.p.sets, s)
	}
	return k
}

func (c *regexCompiler) emit(n *node) error {
	if c.nodes++; len(c.p.code) > regexSize || c.nodes > 4*regexSize {
		return fmt.Errorf("program exceeds %d instructions", regexSize)
	}
	switch n.op {
	case nodeSet:
		c.add(instruction{op: opSet, x: c.set(n.set)})
	case nodeConcat:
		for _, m := range n.list {
			if err := c.emit(m); err != nil {
				return err
			}
		}
	case nodeAlternate:
		var ends []int
		for i, m := range n.list {
			split := -1
			if i < len(n.list)-1 {
				split = c.add(instruction{op: opSplit})
				c.p.code[split].x = split + 1
			}
			if err := c.emit(m); err != nil {
				return err
			}
			if split >= 0 {
				ends = append(ends, c.add(instruction{op: opJump}))
				c.p.code[split].y = len(c.p.code)
			}
		}
		for _, pc := range ends {
			c.p.code[pc].x = len(c.p.code)
		}
	case nodeAssert:
		c.add(instruction{op: opAssert, x: n.kind})
	case nodeAtomic, nodeLook:
		op := opAtomic
		if n.op == nodeLook {
			op = opLook
		}
		pc := c.add(instruction{op: op, y: n.kind})
		if n.op == nodeLook && n.kind >= lookBehind {
			w, ok := width(n.list[0])
			if !ok {
				return errors.New("a lookbehind of variable length is not supported")
			}
			if c.width == nil {
				c.width = map[int]int{}
			}
			c.width[pc] = w
		}
		if err := c.emit(n.list[0]); err != nil {
			return err
		}
		c.add(instruction{op: opMatch})
		c.p.code[pc].x = len(c.p.code)
	case nodeRepeat:
		return c.repeat(n)
	}
	return nil
}

func (c *regexCompiler) repeat(n *node) error {
	body := n.list[0]
	for body.op == nodeConcat && len(body.list) == 1 {
		body = body.list[0]
	}
	if body.op == nodeSet && !n.lazy {
		c.add(instruction{op: opRun, x: c.set(body.set), min: n.min, max: n.max})
		return nil
	}
	for range n.min {
		if err := c.emit(body); err != nil {
			return err
		}
	}
	split := func() int {
		pc := c.add(instruction{op: opSplit})
		c.p.code[pc].x = pc + 1
		return pc
	}
	leave := func(pc, to int) { // the other way of a split
		in := &c.p.code[pc]
		in.y = to
		if n.lazy {
			in.x, in.y = in.y, in.x
		}
	}
	if n.max >= 0 {
		var splits []int
		for range n.max - n.min {
			splits = append(splits, split())
			if err := c.emit(body); err != nil {
				return err
			}
		}
		for _, pc := range splits {
			leave(pc, len(c.p.code))
		}
		return nil
	}
	slot := c.p.slots
	c.p.slots++
	top := split()
	c.add(instruction{op: opMark, x: slot})
	if err := c.emit(body); err != nil {
		return err
	}
	moved := c.add(instruction{op: opMoved, x: slot})
	c.add(instruction{op: opJump, x: top})
	c.p.code[moved].y = len(c.p.code)
	leave(top, len(c.p.code))
	return nil
}

// width returns how many characters a node matches, if that is always the same number.
func width(n *node) (int, bool) {
	switch n.op {
	case nodeSet:
		return 1, true
	case nodeEmpty, nodeAssert, nodeLook:
		return 0, true
	case nodeConcat, nodeAtomic:
		sum := 0
		for _, m := range n.list {
			w, ok := width(m)
			if !ok {
				return 0, false
			}
			sum += w
		}
		return sum, sum <= regexSize
	case nodeAlternate:
		w, ok := width(n.list[0])
		for _, m := range n.list[1:] {
			v, same := width(m)
			ok = ok && same && v == w
		}
		return w, ok
	case nodeRepeat:
		w, ok := width(n.list[0])
		return w * n.min, ok && n.min == n.max && w*n.min <= regexSize
	}
	return 0, false
}
