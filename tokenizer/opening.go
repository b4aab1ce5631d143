package tokenizer

// Bytes of memory that tables take at most for each element.
const (
	entryBytes  = 57      // of a map of strings to ids, the table of which is up to 16/7 times as large
	valueBytes  = 48      // of a JSON value: in a list that grows, and boxed
	mapBytes    = 48      // of a JSON object, besides its members
	groupBytes  = 288     // of its first members, up to 8
	memberBytes = 128     // of each other member
	addedBytes  = 256     // of an added token, besides its text
	regexMemory = 1 << 20 // of a compiled regular expression
)

// opening counts the memory of a tokenizer while it is opened. A nil one counts nothing.
type opening struct {
	reserve         func(n int64) error
	kept, temporary int // bytes
	reserved        int
	err             error // of reserve: ends opening
}

// keep reserves n bytes of the tokenizer. It reports whether opening goes on.
func (o *opening) keep(n int) bool {
	if o == nil {
		return true
	}
	o.kept += n
	return o.check()
}

// take reserves n bytes that are needed until the tokenizer is open.
func (o *opening) take(n int) bool {
	if o == nil {
		return true
	}
	o.temporary += n
	return o.check()
}

func (o *opening) check() bool {
	// The collector may wait until there is as much garbage as memory in use.
	if n := 2*(o.kept+o.temporary) - o.reserved; n > 0 && o.err == nil && o.reserve != nil {
		n += 1 << 16 // for the next small parts
		if o.err = o.reserve(int64(n)); o.err == nil {
			o.reserved += n
		}
	}
	return o.err == nil
}

// failed returns the error that ends opening, or nil.
func (o *opening) failed() error {
	if o == nil {
		return nil
	}
	return o.err
}

// end gives back all but the memory of the tokenizer.
func (o *opening) end() error {
	if o.err == nil && o.reserve != nil {
		o.err = o.reserve(int64(o.kept - o.reserved))
	}
	o.reserve = nil // tables refer to o
	return o.err
}
