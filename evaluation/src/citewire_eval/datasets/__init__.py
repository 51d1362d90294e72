"""Data sets with questions, judgements and answers, in BEIR, SQuAD or ClapNQ form."""
