package contrib

import (
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// StringStrip removes ASCII white space at both ends of strings. A string of white space alone
// stays as it is.
var _ = register("StringStrip", "input:string", "output:string", always(func(c *call) ([]tensor.Value, error) {
	return c.mapStrings(0, func(s string) string {
		if t := strings.Trim(s, " \t\n\r\f\v"); t != "" {
			return t
		}
		return s
	})
}))
