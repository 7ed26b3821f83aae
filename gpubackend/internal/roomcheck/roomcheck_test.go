// SPDX-License-Identifier: Apache-2.0

package roomcheck

import (
	"reflect"
	"slices"
	"testing"
)

func TestDescribed(t *testing.T) { Complete(t) }

// copies stands for a room that answers a function of its own and one of another's.
type copies struct{}

func (*copies) MemsetD8Async() {}
func (*copies) MemAlloc()      {}
func (*copies) Other()         {}

func TestFunctions(t *testing.T) {
	got := functions(reflect.TypeFor[*copies]())
	if want := []string{"MemAlloc", "MemsetD8Async"}; !slices.Equal(got, want) {
		t.Errorf("functions %v, want %v", got, want)
	}
	if !has(described["copies"], "MemsetD8Async") || has(described["copies"], "MemAlloc") {
		t.Error("copies has no MemsetD8Async, or has MemAlloc")
	}
}
