package contrib

import "github.com/onward-ml/onward/tensor"

// StringLength counts the code points of strings.
var _ = register("StringLength", "input:string", "output:int64", always(func(c *call) ([]tensor.Value, error) {
	in := c.strings(0)
	out, err := filled(c, 8, int64(0), len(in))
	if err != nil {
		return nil, err
	}
	for i, s := range in {
		if err := c.Reserve(4 * int64(len(s))); err != nil {
			return nil, err
		}
		out[i] = int64(len(decodeText(s)))
	}
	return values(shaped(out, c.tensor(0).Shape()...))
}))
