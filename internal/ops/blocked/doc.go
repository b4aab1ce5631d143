// Package blocked implements the operators that only optimizer passes create: operators
// on the blocked layout NCHW16c, and fusions of several operators of a model.
package blocked
