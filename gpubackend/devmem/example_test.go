// SPDX-License-Identifier: Apache-2.0

package devmem_test

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// printer is a backing that only says what it is asked for.
type printer struct{}

func (printer) Map(addr, bytes uint64) error {
	fmt.Printf("map %d MiB at %#x\n", bytes>>20, addr)
	return nil
}

func (printer) Unmap(addr, bytes uint64) { fmt.Printf("unmap %d MiB at %#x\n", bytes>>20, addr) }

func Example() {
	heap, err := devmem.New(devmem.Base, devmem.Window, 1<<30, printer{})
	if err != nil {
		fmt.Println(err)
		return
	}
	small, _ := heap.Alloc(100)
	also, _ := heap.Alloc(100)
	large, _ := heap.Alloc(100 << 20)
	fmt.Printf("%#x %#x %#x\n", small, also, large)
	fmt.Println(heap.Free(large), heap.Used()>>20)
	// Output:
	// map 32 MiB at 0x500000000000
	// map 100 MiB at 0x500002000000
	// 0x500000000000 0x500000000200 0x500002000000
	// unmap 100 MiB at 0x500002000000
	// <nil> 32
}
