// SPDX-License-Identifier: Apache-2.0

package simt_test

import (
	"context"
	"fmt"
	"os"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

const helloPTX = `
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 args);
.global .align 1 .b8 message[] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 10, 0};
.visible .entry hello()
{
	.reg .b32 %t;
	.reg .b64 %a, %f;
	.local .align 8 .b8 buffer[8];
	mov.u32 %t, %tid.x;
	mov.u64 %a, buffer;
	cvta.local.u64 %a, %a;
	st.u32 [%a], %t;
	mov.u64 %f, message;
	{
		.param .b64 p0;
		.param .b64 p1;
		.param .b32 r;
		st.param.b64 [p0], %f;
		st.param.b64 [p1], %a;
		call.uni (r), vprintf, (p0, p1);
	}
	ret;
}`

func Example() {
	module, err := ptx.Parse([]byte(helloPTX), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	program, err := decoded.Load(module, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	memory := newMemory()
	globals := memory.place(program.Globals())
	if err := program.Link(func(name string) (uint64, bool) {
		addr, ok := globals[name]
		return addr, ok
	}); err != nil {
		fmt.Println(err)
		return
	}
	memory.fill(program, globals)
	launch := &simt.Launch{Kernel: program.Kernel("hello"), Grid: simt.Dim{X: 1, Y: 1, Z: 1},
		Block: simt.Dim{X: 3, Y: 1, Z: 1}, Memory: memory, Stdout: os.Stdout}
	if err := launch.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// thread 0
	// thread 1
	// thread 2
}
