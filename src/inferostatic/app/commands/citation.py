"""What `--cite` prints."""

#: BibTeX of the software, whose version is filled in, and of the paper.
BIBTEX = """@software{{inferostatic,
  author = {{{{The inferostatic developers}}}},
  title = {{inferostatic: inference from simulators by learned scores and likelihood ratios}},
  version = {{{version}}},
}}

@article{{kong2022inferostatic,
  author = {{Kong, Kyoungchul and Matchev, Konstantin T. and Mrenna, Stephen and Shyamsundar, Prasanth}},
  title = {{New Machine Learning Techniques for Simulation-Based Inference: {{InferoStatic}} Nets, Kernel Score Estimation, and Kernel Likelihood Ratio Estimation}},
  eprint = {{2210.01680}},
  archivePrefix = {{arXiv}},
  year = {{2022}},
}}"""  # noqa: E501
