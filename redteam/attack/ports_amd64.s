#include "textflag.h"

// func in(port uint16) byte
TEXT ·in(SB), NOSPLIT, $0-9
	MOVW port+0(FP), DX
	INB
	MOVB AX, ret+8(FP)
	RET

// func out(port uint16, value byte)
TEXT ·out(SB), NOSPLIT, $0-3
	MOVW port+0(FP), DX
	MOVB value+2(FP), AX
	OUTB
	RET
