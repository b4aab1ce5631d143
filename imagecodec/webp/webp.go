// Package webp makes the operator ImageDecoder decode WebP in programs that import it:
//
//	import _ "github.com/onward-ml/onward/imagecodec/webp"
//
// It depends on golang.org/x/image.
package webp

import _ "github.com/onward-ml/onward/internal/imagecodec/webp" // registers the format
