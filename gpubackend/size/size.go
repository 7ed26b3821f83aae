// SPDX-License-Identifier: Apache-2.0

// Package size reads and writes numbers of bytes as people give them: 512M, 8G.
package size

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const units = "KMGT"

// Parse reads a number of bytes: digits and perhaps K, M, G or T.
func Parse(text string) (uint64, error) {
	digits, shift := text, 0
	if i := strings.IndexByte(units, lastUpper(text)); i >= 0 {
		shift = 10 * (i + 1)
		digits = text[:len(text)-1]
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, fmt.Errorf("size %q: want a number, perhaps with K, M, G or T behind it", text)
	}
	if err != nil || n > math.MaxUint64>>shift {
		return 0, fmt.Errorf("size %q is too large", text)
	}
	return n << shift, nil
}

// lastUpper is the last byte of a text as an upper-case letter.
func lastUpper(text string) byte {
	if text == "" {
		return 0
	}
	return text[len(text)-1] &^ 0x20
}

// Format writes a size as Parse reads it: exactly, in the largest unit that allows that.
func Format(n uint64) string {
	unit := ""
	for _, next := range strings.Split(units, "") {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return fmt.Sprint(n) + unit
}
