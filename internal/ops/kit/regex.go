package kit

// MaxPattern limits the length of patterns, since the time to match is proportional to it.
const MaxPattern = 1 << 14
