/* start.c - starts a program on an emulated MPS2 board, which gives it the console of the host (semihosting). */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t __stack, __bss_start__, __bss_end__;
int main(void);
void initialise_monitor_handles(void);

void _fini(void) {} /* newlib's exit calls it */

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFU << 20; /* CPACR: the floating-point unit */
    __asm volatile("dsb\n isb");
    for (uint32_t *word = &__bss_start__; word < &__bss_end__; word++) *word = 0;
    initialise_monitor_handles();
    exit(main());
}

static void fault(void) {
    exit(99);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = { &__stack, (void *)reset,
    (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault };
