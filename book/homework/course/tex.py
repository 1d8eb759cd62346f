"""Which TeX of a student's is set: symbols and layouts, each of which ends with its formula."""

from __future__ import annotations

import re

# Whatever is not in this list is shown as it was typed. None of these defines anything, names a part of the page,
# loads, links, counts, or takes a length.
NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi omicron pi varpi
rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi
Omega digamma aleph beth gimel hbar hslash ell wp Re Im partial nabla infty imath jmath forall exists nexists emptyset
varnothing complement prime backprime surd angle measuredangle triangle square blacksquare Box Diamond lozenge
clubsuit diamondsuit heartsuit spadesuit flat natural sharp top bot mho eth checkmark star bigstar dag dagger ddag
ddagger S P degree sum prod coprod int iint iiint oint intop bigcup bigcap bigsqcup bigvee bigwedge bigoplus bigotimes
bigodot biguplus pm mp times div cdot cdotp ast circ bullet cap cup uplus sqcap sqcup vee wedge lor land setminus
smallsetminus wr diamond oplus ominus otimes oslash odot bigcirc amalg dotplus rtimes ltimes bigtriangleup
bigtriangledown barwedge lt gt le leq leqq leqslant ge geq geqq geqslant ne neq equiv sim simeq approx approxeq cong
doteq triangleq propto varpropto ll gg lll ggg prec succ preceq succeq preccurlyeq succcurlyeq precsim succsim lesssim
gtrsim lessgtr gtrless lessapprox gtrapprox subset supset subseteq supseteq subsetneq supsetneq sqsubset sqsupset
sqsubseteq sqsupseteq in ni owns notin mid nmid parallel nparallel perp asymp models vdash dashv vDash smile frown
bowtie between therefore because coloneqq colon Vdash nless ngtr nleq ngeq nsim ncong nsubseteq nsupseteq not to gets
leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow longleftarrow longrightarrow
longleftrightarrow Longleftarrow Longrightarrow Longleftrightarrow mapsto longmapsto hookleftarrow hookrightarrow
uparrow downarrow updownarrow Uparrow Downarrow Updownarrow nearrow searrow swarrow nwarrow leadsto rightsquigarrow
leftharpoonup leftharpoondown rightharpoonup rightharpoondown rightleftharpoons leftleftarrows rightrightarrows
leftrightarrows twoheadrightarrow iff implies impliedby xleftarrow xrightarrow nrightarrow nRightarrow nleftarrow
ldots cdots vdots ddots dots dotsb dotsc dotsi dotsm dotso left right middle big Big bigg Bigg bigl bigr bigm Bigl
Bigr Bigm biggl biggr biggm Biggl Biggr Biggm langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert
Vert lbrace rbrace lbrack rbrack lgroup rgroup backslash arccos arcsin arctan arg cos cosh cot coth csc deg det dim
exp gcd hom inf injlim ker lg lim liminf limsup ln log max min Pr projlim sec sin sinh sup tan tanh bmod pmod mod pod
operatorname limits nolimits frac dfrac tfrac cfrac binom dbinom tbinom over atop choose brace brack sqrt root of
stackrel overset underset overline underline overbrace underbrace overrightarrow overleftarrow overleftrightarrow
underrightarrow underleftarrow hat widehat tilde widetilde bar vec dot ddot dddot acute grave breve check mathring
boxed substack text textrm textbf textit textsf texttt textnormal mbox mathrm mathbf mathit mathsf mathtt mathcal
mathbb mathfrak mathscr mathnormal boldsymbol bold pmb Bbb rm bf it sf tt cal scr frak displaystyle textstyle
scriptstyle scriptscriptstyle mathop mathbin mathrel mathord mathopen mathclose mathpunct mathinner phantom hphantom
vphantom strut mathstrut quad qquad enspace thinspace negthinspace space begin end hline hdashline notag nonumber tag
cr
"""
KNOWN = frozenset(NAMES.split())
COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.S)


def symbols_only(text: str) -> str:
    """Text in which a command that is not in `NAMES` is none: in place of its backslash stands another sign."""
    return COMMAND.sub(shown, text)


def shown(found: re.Match) -> str:
    command, behind = found[1], found.string[found.end() : found.end() + 1]
    if command == "\\":  # the end of a row, and no part of the word behind it
        return f"{found[0]} " if behind.isalpha() else found[0]
    return found[0] if command in KNOWN or not (command.isascii() and command.isalpha()) else f"∖{command}"
