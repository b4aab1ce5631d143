//go:build !unix

package tokenizer

const nonblock = 0
