package memory

import "sync"

// Default returns half of the machine's memory in bytes, or 4 GiB if its size is unknown. It is the
// limit for data of unknown origin if there is no other.
var Default = sync.OnceValue(func() int64 {
	if n := machine(); n > 0 {
		return n / 2
	}
	return 4 << 30
})
