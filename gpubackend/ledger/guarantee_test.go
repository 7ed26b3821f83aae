// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"strings"
	"testing"
)

func TestCheckGuarantees(t *testing.T) {
	for _, test := range []struct {
		name       string
		guarantees map[string]uint64
		refused    string // the VM
	}{
		{"none", nil, ""},
		{"all of it", map[string]uint64{"a": 60, "b": 40, "c": 0}, ""},
		{"one byte too many", map[string]uint64{"a": 60, "b": 41}, `"b"`},
		{"more than there is", map[string]uint64{"a": 101}, `"a"`},
		{"wraps around", map[string]uint64{"a": 60, "b": math.MaxUint64 - 30}, `"b"`},
	} {
		err := CheckGuarantees(100, test.guarantees)
		if (err != nil) != (test.refused != "") {
			t.Errorf("%s: %v", test.name, err)
		} else if err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
