package contrib

import "github.com/onward-ml/onward/tensor"

// StringLower converts ASCII, Latin-1 and parts of Greek and Cyrillic to lowercase.
var _ = register("StringLower", "input:string", "output:string", always(func(c *call) ([]tensor.Value, error) {
	return c.mapStrings(8, func(s string) string {
		text := decodeText(s)
		for i, r := range text {
			text[i] = lower(r)
		}
		return encodeText(text)
	})
}))
