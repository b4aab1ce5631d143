package contrib

import "github.com/onward-ml/onward/tensor"

// StringUpper converts the ASCII letters of strings to uppercase.
var _ = register("StringUpper", "input:string", "output:string", always(func(c *call) ([]tensor.Value, error) {
	return c.mapStrings(1, func(s string) string {
		b := []byte(s)
		for i, ch := range b {
			if ch >= 'a' && ch <= 'z' {
				b[i] = ch - 32
			}
		}
		return string(b)
	})
}))
