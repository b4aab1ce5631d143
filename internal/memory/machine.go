package memory

import "sync"

// Default returns half of the memory in bytes that the machine has, or that the control group of
// the process is limited to; 4 GiB if it is unknown. It is the limit for data of unknown origin if
// there is no other.
var Default = sync.OnceValue(func() int64 {
	if n := machine(); n > 0 {
		return n / 2
	}
	return 4 << 30
})
