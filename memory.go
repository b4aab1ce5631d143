package onward

import (
	"sync"
)

// defaultMemory is half of the machine's memory, or 4 GiB where that is not
// known.
var defaultMemory = sync.OnceValue(func() int64 {
	if n := physicalMemory(); n > 0 {
		return n / 2
	}
	return 4 << 30
})
