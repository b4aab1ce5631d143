// Package gradops implements the operators that only gradient rules create.
package gradops
