package kit

// MaxPattern bounds patterns: matching takes time in proportion to the length
// of the pattern.
const MaxPattern = 1 << 14
