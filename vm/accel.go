package vm

import "context"

func accelerator(ctx context.Context, a Assets) string { return "tcg" }
