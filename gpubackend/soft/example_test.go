// SPDX-License-Identifier: Apache-2.0

package soft_test

import (
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

const double = `
.version 8.0
.target sm_80
.address_size 64
.visible .entry double(.param .u64 p)
{
	.reg .b64 %rd<4>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.u32 %r2, [%rd3];
	shl.b32 %r2, %r2, 1;
	st.global.u32 [%rd3], %r2;
	ret;
}`

func Example() {
	var d gpubackend.Driver = soft.New(soft.Options{Memory: 64 << 20})
	if _, result := d.Open(nil); result != gpubackend.Success {
		fmt.Println("no device:", result)
		return
	}
	defer d.Close()
	context, _ := d.DevicePrimaryCtxRetain(0)
	d.SetCurrent(context)

	module, _, _, _ := d.ModuleLoadData([]byte(double), nil, nil, nil)
	function, _ := d.ModuleGetFunction(module, "double")
	memory, _ := d.MemAlloc(12)
	d.CopyIn(memory, []byte{1, 0, 0, 0, 20, 0, 0, 0, 44, 1, 0, 0}, gpubackend.DefaultStream)
	d.Launch(&gpubackend.Launch{
		Function: function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{3, 1, 1},
		Parameters: binary.LittleEndian.AppendUint64(nil, memory),
	})
	for d.ContextQuery() == gpubackend.NotReady {
	}
	numbers := make([]byte, 12)
	d.CopyOut(numbers, memory)
	for i := 0; i < len(numbers); i += 4 {
		fmt.Println(binary.LittleEndian.Uint32(numbers[i:]))
	}
	// Output:
	// 2
	// 40
	// 600
}
