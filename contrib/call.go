package contrib

import (
	"context"
	"fmt"
	"math"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// node holds the attributes of a node. Its methods record the first error.
type node struct {
	attrs map[string]any
	err   error
}

func attribute[T any](n *node, name string, value T) T {
	a, ok := n.attrs[name]
	if !ok {
		return value
	}
	v, ok := a.(T)
	if !ok && n.err == nil {
		n.err = fmt.Errorf("attribute %s has type %T, want %T", name, a, value)
	}
	return v
}

// maxText limits the size of an attribute in bytes.
const maxText = 1 << 28

// text returns a string, or a default if it is missing.
func (n *node) text(name, value string) string {
	s := attribute(n, name, value)
	if len(s) > maxText && n.err == nil {
		n.err = fmt.Errorf("attribute %s has %d bytes, want at most %d", name, len(s), maxText)
	}
	return s
}

// required returns a string, which must be given and not be empty.
func (n *node) required(name string) string {
	s := n.text(name, "")
	if s == "" && n.err == nil {
		n.err = fmt.Errorf("attribute %s must be a non-empty string", name)
	}
	return s
}

func (n *node) int(name string, value int64) int64 { return attribute(n, name, value) }

// flag returns whether an integer is not 0.
func (n *node) flag(name string, value bool) bool {
	v := int64(0)
	if value {
		v = 1
	}
	return n.int(name, v) != 0
}

// call holds the arguments of a kernel.
type call struct {
	driver.CustomCall
	ctx context.Context
}

// has reports whether an optional input is given.
func (c *call) has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// tensor returns an input, whose type the signature ensures.
func (c *call) tensor(i int) *tensor.Tensor { return c.In[i].(*tensor.Tensor) }

func (c *call) strings(i int) []string { return tensor.MustData[string](c.tensor(i)) }
func (c *call) ints(i int) []int64     { return tensor.MustData[int64](c.tensor(i)) }
func (c *call) floats(i int) []float32 { return tensor.MustData[float32](c.tensor(i)) }

// one returns the element of an input with one element.
func one[T tensor.Element](c *call, i int) (T, error) {
	t := c.tensor(i)
	if t.Len() != 1 {
		var zero T
		return zero, fmt.Errorf("input %d has shape %v, want one element", i, t.Shape())
	}
	return tensor.MustData[T](t)[0], nil
}

// option returns the element of an optional input with one element, or false.
func (c *call) option(i int) (bool, error) {
	if !c.has(i) {
		return false, nil
	}
	return one[bool](c, i)
}

// stringBytes is the size of a string without its text.
const stringBytes = 16

// reserveTexts charges the memory for copies of strings, each with n bytes for a byte.
func (c *call) reserveTexts(texts []string, n int64) error {
	size := int64(0)
	for _, s := range texts {
		size += stringBytes + n*int64(len(s))
	}
	return c.Reserve(size)
}

// mapStrings returns a tensor of the results of f for each string of input 0. A result has at
// most n bytes for each byte of its string.
func (c *call) mapStrings(n int64, f func(string) string) ([]tensor.Value, error) {
	in := c.strings(0)
	if err := c.reserveTexts(in, n); err != nil {
		return nil, err
	}
	out := make([]string, len(in))
	for i, s := range in {
		if i&255 == 0 || len(s) > 1<<16 {
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
		}
		out[i] = f(s)
	}
	return values(shaped(out, c.tensor(0).Shape()...))
}

// shaped returns a tensor of a shape whose size is that of data.
func shaped[T tensor.Element](data []T, shape ...int) *tensor.Tensor {
	return tensor.Must(tensor.New(data, shape...))
}

// list returns a tensor of rank 1.
func list[T tensor.Element](data []T) *tensor.Tensor { return shaped(data, len(data)) }

func values(t ...*tensor.Tensor) ([]tensor.Value, error) {
	out := make([]tensor.Value, len(t))
	for i, v := range t {
		out[i] = v
	}
	return out, nil
}

// product returns the product of sizes, or an error if elements of that many bytes take more
// than the address space.
func product(bytes int64, sizes ...int) (int, error) {
	n := int64(1)
	for _, s := range sizes {
		if s < 0 || s > 0 && n > math.MaxInt/bytes/int64(s) {
			return 0, fmt.Errorf("a tensor of shape %v is too large", sizes)
		}
		n *= int64(s)
	}
	return int(n), nil
}

// filled returns n elements of a value, after charging their memory.
func filled[T tensor.Element](c *call, bytes int64, value T, sizes ...int) ([]T, error) {
	n, err := product(bytes, sizes...)
	if err == nil {
		err = c.Reserve(bytes * int64(n))
	}
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	for i := range out {
		out[i] = value
	}
	return out, nil
}
